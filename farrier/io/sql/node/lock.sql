-- Locks the schedule rows of nodes, in order; rows that others hold are passed over. The node itself is not locked: an
-- intent's foreign key holds a share of it for as long as its client likes.
SELECT s.id, s.claim_token, n.version
  FROM farrier.schedule s
  LEFT JOIN farrier.nodes n ON n.id = s.id
 WHERE s.kind = 'node' AND s.id = ANY ($1::bigint[])
 ORDER BY s.id
   FOR NO KEY UPDATE OF s SKIP LOCKED
