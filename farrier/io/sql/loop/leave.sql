-- Removes the row of a controller that has given its shards back; if it has not, the others find them without an owner.
DELETE FROM farrier.controllers c WHERE c.id = $1
