-- Returns the wakes of all transactions that may not have ended at the previous poll, whose floor is $2. Each row has
-- the time, and the floor for the next poll: all transactions below the floor have ended. Returns at least one row.
SELECT p.floor::text, farrier.now(), w.kind, w.resource, w.id
  FROM (SELECT pg_snapshot_xmin(pg_current_snapshot()) AS floor) p
  LEFT JOIN farrier.wakes w ON w.kind = ANY ($1::text[]) AND w.xact >= $2::text::xid8
