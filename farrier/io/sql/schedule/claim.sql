-- Takes due rows of one lane, oldest first, for one lease; rows held by others are passed over. The first
-- row of the answer is none of them: it tells the time, how many were found due, and the due time of the last of these.
-- By ctid: under an open snapshot the primary key leads to every version that a row ever had. A version that came while
-- we locked it is found, but not seen by the update, and is left to a later scan: so what was found may be more than what
-- was taken. A claim need not outlive a crash of the server (its run then finds the token gone), so nobody waits for the
-- disk.
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
SELECT f.now, f.found, f.last AS due_at, NULL::bigint AS id, NULL::integer AS outcome_key, NULL::smallint AS reruns, NULL::boolean AS taken_over
  FROM (SELECT farrier.now(), count(*), max(due_at), set_config('synchronous_commit', 'off', true) FROM due) AS f (now, found, last)
 UNION ALL
SELECT NULL, NULL, due_at, id, outcome_key, reruns, taken_over FROM claimed
 ORDER BY found, due_at
