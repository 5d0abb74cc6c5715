-- Returns the wakes of all transactions that polls since `floor` may have missed, and in each row the time and the floor of the next
-- poll, before which all transactions have ended. Returns at least one row.
SELECT p.floor::text, farrier.now(), w.kind, w.resource, w.id
  FROM (SELECT pg_snapshot_xmin(pg_current_snapshot()) AS floor) p
  LEFT JOIN farrier.wakes w ON w.kind = ANY ($1::text[]) AND w.xact >= $2::text::xid8
