-- What runs leave beside their states, on rows this transaction has locked: history, changed outcomes, and the rows given back.
-- One statement for a round trip less; row by row through the key, as a release. `step` 1 counts a rerun, 0 leaves the count, null ends it.
WITH moved AS (
    INSERT INTO farrier.history (kind, id, version, layer, from_value, to_value, at, seconds_in_source, cause, reason, source, controller, claim_token)
    SELECT $1, r.id, r.version, r.layer, r.from_value, r.to_value, farrier.now(), r.seconds, r.cause, r.reason, r.source, $2, r.token
      FROM unnest($3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::text[], $8::double precision[], $9::text[], $10::text[], $11::text[], $12::bigint[])
           AS r (id, version, layer, from_value, to_value, seconds, cause, reason, source, token)
), told AS (
    INSERT INTO farrier.outcomes AS o (kind, id, at, outcome)
    SELECT $1, r.id, farrier.now(), r.outcome::jsonb
      FROM unnest($13::bigint[], $14::text[]) AS r (id, outcome)
        ON CONFLICT (kind, id) DO UPDATE SET at = excluded.at, outcome = excluded.outcome
), ours AS MATERIALIZED (
    SELECT s.place, r.lane, r.delay, r.step, r.outcome_key
      FROM unnest($15::bigint[], $16::smallint[], $17::interval[], $18::smallint[], $19::integer[]) AS r (id, lane, delay, step, outcome_key)
     CROSS JOIN LATERAL (SELECT ctid AS place FROM farrier.schedule WHERE kind = $1 AND id = r.id FOR NO KEY UPDATE) s
)
UPDATE farrier.schedule s
   SET owner = NULL, claim_token = NULL, claimed_wake_seq = NULL,
       outcome_key = coalesce(ours.outcome_key, s.outcome_key),
       reruns = coalesce(s.reruns + ours.step, 0),
       lane = CASE WHEN s.wake_seq = s.claimed_wake_seq THEN ours.lane ELSE 0 END,
       due_at = CASE WHEN s.wake_seq = s.claimed_wake_seq THEN farrier.now() + ours.delay ELSE farrier.now() END
  FROM ours
 WHERE s.ctid = ours.place
RETURNING s.id, s.lane
