-- Takes rows this transaction has locked off the schedule; answers those that a wake keeps on it, due now to run once more.
WITH gone AS (
    DELETE FROM farrier.schedule s
     WHERE s.kind = $1 AND s.id = ANY ($2::bigint[]) AND s.wake_seq = s.claimed_wake_seq
)
UPDATE farrier.schedule s
   SET owner = NULL, claim_token = NULL, claimed_wake_seq = NULL, lane = 0, due_at = farrier.now()
 WHERE s.kind = $1 AND s.id = ANY ($2::bigint[]) AND s.wake_seq <> s.claimed_wake_seq
RETURNING s.id
