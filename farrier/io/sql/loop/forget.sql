-- Removes the rows of dead controllers that own no shard.
DELETE FROM farrier.controllers c WHERE c.expired AND NOT EXISTS (SELECT FROM farrier.shards s WHERE s.owner = c.id)
