-- Gives shards of one kind back, and notifies the controllers that may take them. Compares the epochs, so that a
-- delayed statement gives back no shard that the controller has taken again.
WITH given AS (
    UPDATE farrier.shards s SET owner = NULL
      FROM unnest($3::smallint[], $4::bigint[]) o (shard, epoch)
     WHERE s.kind = $2 AND s.shard = o.shard AND s.epoch = o.epoch AND s.owner = $1
    RETURNING s.shard
)
SELECT shard, pg_notify('farrier_wake', 'shards') FROM given
