-- Examines one batch of changes that are older than an interval, after a key; if `really`, deletes the changes that are
-- no longer needed.
SELECT p.looked, p.deleted, p.at, p.id, p.version, p.kind, p.layer
  FROM farrier.prune_history(farrier.now() - $1::interval, $2, $3, $4, $5, $6, $7, $8) p
