-- Loads the snapshot of one resource with the time since which it has been held after a restore. The kind's statement replaces `of_kind`;
-- $1 are ids, $2 is the kind.
SELECT l.now, l.snapshot::text AS snapshot, h.since AS held_since FROM (of_kind) l
  LEFT JOIN farrier.restore_holds h ON h.kind = $2 AND h.id = l.id AND h.lifted_at IS NULL
