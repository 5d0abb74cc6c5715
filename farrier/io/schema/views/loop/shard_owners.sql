-- The controller that runs the resources of each shard, and the time at which it had last run all due resources
-- (swept_at); both are null for a shard without a controller.
CREATE OR REPLACE VIEW farrier.shard_owners AS
SELECT s.kind, s.shard, s.epoch, c.id AS controller_id, c.name AS controller,
       c.renewed_at - coalesce(c.lags[array_position(c.kinds, s.kind)], 0) * interval '1 second' AS swept_at
  FROM farrier.shards s
  LEFT JOIN farrier.controllers c ON c.id = s.owner AND NOT c.expired;
