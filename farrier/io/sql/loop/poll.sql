-- Returns the wakes of transactions that no poll since `floor` can have missed, and in each row the time and the floor of the next
-- poll: all transactions before it have ended. One row at least.
SELECT p.floor::text, farrier.now(), w.kind, w.resource, w.id
  FROM (SELECT pg_snapshot_xmin(pg_current_snapshot()) AS floor) p
  LEFT JOIN farrier.wakes w ON w.kind = ANY ($1::text[]) AND w.xact >= $2::text::xid8
