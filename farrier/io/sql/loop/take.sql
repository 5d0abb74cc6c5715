-- Takes shards of one kind whose owner gave them back, has left or was declared dead; skips shards that a transaction of their owner
-- has locked.
WITH free AS MATERIALIZED (
    SELECT s.shard
      FROM farrier.shards s LEFT JOIN farrier.controllers c ON c.id = s.owner
     WHERE s.kind = $2 AND s.shard = ANY ($3::smallint[]) AND (s.owner = $1 OR c.id IS NULL OR c.expired)
     ORDER BY s.shard
       FOR NO KEY UPDATE OF s SKIP LOCKED
)
UPDATE farrier.shards s
   SET owner = $1, epoch = s.epoch + 1
  FROM free
 WHERE s.kind = $2 AND s.shard = free.shard AND farrier.on_disk()
   AND EXISTS (SELECT FROM farrier.controllers c WHERE c.id = $1 AND NOT c.expired)
RETURNING s.shard, s.epoch
