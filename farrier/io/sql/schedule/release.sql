-- Gives back rows whose run changed nothing, and keeps what it said if that is new. A wake that came in meanwhile makes the row due now.
-- Row by row through the key, whatever the planner thinks of a scan of the whole table, and then by ctid, as a claim;
-- what is not released this way is committed by key. Nobody waits for the disk: a release that a crash of the server
-- forgets is one more run.
WITH ours AS MATERIALIZED (
    SELECT r.id, s.place, r.delay, r.outcome, r.outcome_key
      FROM unnest($2::bigint[], $3::bigint[], $4::interval[], $5::text[], $6::integer[]) AS r (id, token, delay, outcome, outcome_key)
     CROSS JOIN LATERAL (
           SELECT ctid AS place
             FROM farrier.schedule
            WHERE kind = $1 AND id = r.id AND claim_token = r.token
              FOR NO KEY UPDATE SKIP LOCKED) s
), told AS (
    INSERT INTO farrier.outcomes AS o (kind, id, at, outcome)
    SELECT $1, id, farrier.now(), outcome::jsonb FROM ours WHERE outcome IS NOT NULL
        ON CONFLICT (kind, id) DO UPDATE SET at = excluded.at, outcome = excluded.outcome
)
UPDATE farrier.schedule s
   SET owner = NULL, claim_token = NULL, claimed_wake_seq = NULL, reruns = 0,
       outcome_key = coalesce(ours.outcome_key, s.outcome_key),
       lane = CASE WHEN s.wake_seq = s.claimed_wake_seq THEN 1 ELSE 0 END,
       due_at = CASE WHEN s.wake_seq = s.claimed_wake_seq THEN farrier.now() + ours.delay ELSE farrier.now() END
  FROM ours
 WHERE s.ctid = ours.place
RETURNING s.id, s.lane, (SELECT set_config('synchronous_commit', 'off', true))
