-- Returns the resources of these shards that a controller loads; resources with a wake or the mark of a step are `woken`. A resource
-- may have several rows.
SELECT id, woken, step FROM farrier.list_shards($1, $2)
