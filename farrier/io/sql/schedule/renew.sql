-- Extends the leases of running claims; a row that somebody has locked keeps the lease it has.
WITH ours AS MATERIALIZED (
    SELECT s.id
      FROM unnest($2::bigint[], $3::bigint[]) AS r (id, token)
      JOIN farrier.schedule s ON s.kind = $1 AND s.id = r.id AND s.claim_token = r.token
     ORDER BY s.id
       FOR NO KEY UPDATE OF s SKIP LOCKED
)
UPDATE farrier.schedule s
   SET due_at = farrier.now() + $4
  FROM ours
 WHERE s.kind = $1 AND s.id = ours.id
RETURNING s.id
