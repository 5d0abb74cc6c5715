-- Takes due rows of one lane, oldest first, for one lease; rows held by others are passed over. Always tells the time.
-- By ctid: under an open snapshot the primary key leads to every version that a row ever had. A version that came while
-- we locked it is not seen by the update, and is due for the next claim. A claim need not outlive a crash of the server
-- (its run then finds the token gone), so nobody waits for the disk.
WITH due AS MATERIALIZED (
    SELECT ctid AS place, due_at, claim_token IS NOT NULL AS taken_over
      FROM farrier.schedule
     WHERE kind = $1 AND lane = $2 AND due_at <= farrier.now() AND due_at >= $3
     ORDER BY due_at
     LIMIT $4
       FOR NO KEY UPDATE SKIP LOCKED
), claimed AS (
    UPDATE farrier.schedule s
       SET owner = $5, claim_token = $6, claimed_wake_seq = s.wake_seq, lane = 0, due_at = farrier.now() + $7
      FROM due
     WHERE s.ctid = due.place
    RETURNING s.id, s.outcome_key, s.reruns, due.due_at, due.taken_over
)
SELECT t.now, c.id, c.outcome_key, c.reruns, c.due_at, c.taken_over
  FROM (SELECT farrier.now(), set_config('synchronous_commit', 'off', true)) AS t (now) LEFT JOIN claimed c ON true
 ORDER BY c.due_at
