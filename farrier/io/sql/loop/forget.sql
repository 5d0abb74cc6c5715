-- Removes the rows of dead controllers of which no shard is left.
DELETE FROM farrier.controllers c WHERE c.expired AND NOT EXISTS (SELECT FROM farrier.shards s WHERE s.owner = c.id)
