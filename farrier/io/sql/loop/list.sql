-- The resources of these shards that a controller has to know; those with a wake or the mark of a step are `woken`.
SELECT id, bool_or(woken) AS woken FROM farrier.list_shards($1, $2) GROUP BY id
