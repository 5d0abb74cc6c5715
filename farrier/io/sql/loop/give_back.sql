-- Gives shards of one kind back, and notifies the controllers that may take them. `unrecovered` stays, and is set for those in
-- which a step was cut whose end was not written.
WITH given AS (
    UPDATE farrier.shards s
       SET owner = NULL, unrecovered = CASE WHEN s.shard = ANY ($4::smallint[]) THEN farrier.now() ELSE s.unrecovered END
     WHERE s.kind = $2 AND s.shard = ANY ($3::smallint[]) AND s.owner = $1
    RETURNING s.shard
)
SELECT shard, pg_notify('farrier_wake', 'shards') FROM given
