-- Makes claimed rows due after a delay without an outcome, in the lane they came from; those woken meanwhile are due now.
WITH ours AS MATERIALIZED (
    SELECT s.id
      FROM unnest($2::bigint[], $3::bigint[]) AS r (id, token)
      JOIN farrier.schedule s ON s.kind = $1 AND s.id = r.id AND s.claim_token = r.token
     ORDER BY s.id
       FOR NO KEY UPDATE OF s SKIP LOCKED
)
UPDATE farrier.schedule s
   SET owner = NULL, claim_token = NULL, claimed_wake_seq = NULL,
       lane = CASE WHEN s.wake_seq = s.claimed_wake_seq THEN $5 ELSE 0 END,
       due_at = CASE WHEN s.wake_seq = s.claimed_wake_seq THEN farrier.now() + $4 ELSE farrier.now() END
  FROM ours
 WHERE s.kind = $1 AND s.id = ours.id
RETURNING s.id
