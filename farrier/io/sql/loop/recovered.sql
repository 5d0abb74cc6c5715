-- Every resource of these shards had its first run since they were taken.
UPDATE farrier.shards s SET unrecovered = NULL
  FROM unnest($3::smallint[], $4::bigint[]) o (shard, epoch)
 WHERE s.kind = $2 AND s.shard = o.shard AND s.epoch = o.epoch AND s.owner = $1
