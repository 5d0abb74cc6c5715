-- Returns the wakes of all transactions that may not have ended at the previous poll, whose floor is $2. Each row has
-- the time, and the floor for the next poll: all transactions below the floor have ended. Returns at least one row. If there are
-- more than $3 wakes, names only their resources, one array for each kind: a controller must not spend seconds on reading wakes.
WITH p AS MATERIALIZED (
    SELECT pg_snapshot_xmin(pg_current_snapshot()) AS floor
), few AS MATERIALIZED (
    SELECT w.kind, w.resource, w.id, w.quiet FROM farrier.wakes w WHERE w.kind = ANY ($1::text[]) AND w.xact >= $2::text::xid8 LIMIT $3 + 1
)
SELECT p.floor::text AS floor, farrier.now() AS now, f.kind, f.resource, f.id, f.quiet, NULL::bigint[] AS many
  FROM p LEFT JOIN few f ON (SELECT count(*) FROM few) <= $3
UNION ALL
SELECT p.floor::text, farrier.now(), m.kind, NULL, NULL, NULL, m.many
  FROM p CROSS JOIN (
       SELECT w.kind, array_agg(DISTINCT w.resource) AS many
         FROM farrier.wakes w
        WHERE (SELECT count(*) FROM few) > $3 AND w.kind = ANY ($1::text[]) AND w.xact >= $2::text::xid8
        GROUP BY w.kind) m
