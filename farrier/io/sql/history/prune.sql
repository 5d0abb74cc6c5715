-- Takes one step over changes older than an interval, after a key; deletes those that are no longer needed if `really`.
SELECT p.looked, p.deleted, p.at, p.id, p.version, p.kind, p.layer
  FROM farrier.prune_history(farrier.now() - $1::interval, $2, $3, $4, $5, $6, $7, $8) p
