-- A run that is to be made again at once keeps its row: the commit claims it anew. Given back, it would be found, claimed and
-- confirmed by three more trips to the server; and a claim of a commit is on disk, so what its run does outside may begin.

DROP FUNCTION farrier.commit_runs(
    text, uuid, boolean, text, jsonb, bigint[], bigint[], smallint[], interval[], smallint[], integer[],
    bigint[], bigint[], text[], text[], text[], double precision[], text[], text[], text[], bigint[], bigint[], text[]);

-- Commits runs of one kind, each whole or not at all, and gives their schedule rows back. `writer` names the kind's own
-- function (jsonb) RETURNS TABLE (run bigint, due_in interval): it writes states and whatever else runs leave, and answers
-- the runs of which it wrote nothing because what they were decided on has changed. A lane that is null takes the row off
-- the schedule; `steps` 1 counts a rerun, 0 leaves the count, null ends it. Verdicts: committed, conflict, lost, locked.
-- With a `next_token`, rows of counted reruns are `kept`: claimed under it by the same controller for `next_lease`.
CREATE FUNCTION farrier.commit_runs(
    of_kind text, controller uuid, patient boolean, writer text, changes jsonb,
    ids bigint[], tokens bigint[], lanes smallint[], delays interval[], steps smallint[], keys integer[],
    moved bigint[], versions bigint[], layers text[], from_values text[], to_values text[], entered timestamptz[],
    causes text[], reasons text[], sources text[], move_tokens bigint[],
    told bigint[], outcomes text[],
    next_token bigint DEFAULT NULL, next_lease interval DEFAULT NULL)
    RETURNS TABLE (id bigint, verdict text, woken boolean, kept boolean, outcome_key integer, reruns smallint)
    LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    locked bigint[];
    won bigint[];
    failed_runs bigint[];
    failed_dues interval[];
    all_won boolean;
BEGIN
    -- What a run writes besides its own rows may be held by anybody, and many runs wait together.
    PERFORM set_config('lock_timeout', '1s', true);
    IF patient THEN
        PERFORM FROM farrier.schedule s WHERE s.kind = of_kind AND s.id = ANY (ids) ORDER BY s.id FOR NO KEY UPDATE;
    END IF;
    SELECT array_agg(l.id), array_agg(l.id) FILTER (WHERE l.claim_token = r.token) INTO locked, won
      FROM (SELECT s.id, s.claim_token FROM farrier.schedule s
             WHERE s.kind = of_kind AND s.id = ANY (ids) ORDER BY s.id FOR NO KEY UPDATE SKIP LOCKED) l
      JOIN unnest(ids, tokens) r (id, token) USING (id);
    IF coalesce(cardinality(won), 0) < cardinality(ids) THEN
        RETURN QUERY SELECT r.id, CASE WHEN patient OR r.id = ANY (locked) THEN 'lost' ELSE 'locked' END,
                            false, false, NULL::integer, NULL::smallint
                       FROM unnest(ids) r (id) WHERE won IS NULL OR r.id <> ALL (won);
        IF won IS NULL THEN RETURN; END IF;
        changes := farrier.of_runs(changes, won);
    END IF;

    IF changes <> '{}' THEN
        EXECUTE format('SELECT array_agg(w.run), array_agg(w.due_in) FROM %s($1) w', writer::regproc)
           INTO failed_runs, failed_dues USING changes;
        IF failed_runs IS NOT NULL THEN
            RETURN QUERY
            UPDATE farrier.schedule s
               SET owner = NULL, claim_token = NULL, claimed_wake_seq = NULL, lane = 0,
                   due_at = farrier.now() + CASE WHEN s.wake_seq = s.claimed_wake_seq THEN f.due_in ELSE '0' END
              FROM unnest(failed_runs, failed_dues) f (run, due_in)
             WHERE s.kind = of_kind AND s.id = f.run
            RETURNING s.id, 'conflict', f.due_in <= interval '0' OR s.due_at <= farrier.now(), false, s.outcome_key, s.reruns;
            won := ARRAY(SELECT w FROM unnest(won) w WHERE w <> ALL (failed_runs));
        END IF;
    END IF;
    all_won := cardinality(won) = cardinality(ids);

    IF cardinality(moved) > 0 THEN
        INSERT INTO farrier.history (kind, id, version, layer, from_value, to_value, at, seconds_in_source, cause, reason, source, controller, claim_token)
        SELECT of_kind, r.id, r.version, r.layer, r.from_value, r.to_value, farrier.now(),
               CASE WHEN r.entered IS NOT NULL THEN extract(epoch FROM greatest(farrier.now() - r.entered, '0')) END, r.cause, r.reason, r.source, commit_runs.controller, r.token
          FROM unnest(moved, versions, layers, from_values, to_values, entered, causes, reasons, sources, move_tokens)
               AS r (id, version, layer, from_value, to_value, entered, cause, reason, source, token)
         WHERE all_won OR r.id = ANY (won);
    END IF;
    IF cardinality(told) > 0 THEN
        INSERT INTO farrier.outcomes AS o (kind, id, at, outcome)
        SELECT of_kind, r.id, farrier.now(), r.outcome::jsonb FROM unnest(told, commit_runs.outcomes) AS r (id, outcome)
         WHERE all_won OR r.id = ANY (won)
            ON CONFLICT (kind, id) DO UPDATE SET at = excluded.at, outcome = excluded.outcome;
    END IF;

    -- Row by row through the key, and then by ctid, as a release. What goes on at once is claimed here: whatever woke it until
    -- now is seen by the load that follows.
    RETURN QUERY
    WITH ours AS MATERIALIZED (
        SELECT s.place, r.lane, r.delay, r.step, r.outcome_key, coalesce(r.step = 1, false) AND next_token IS NOT NULL AS keep
          FROM unnest(ids, lanes, delays, steps, keys) AS r (id, lane, delay, step, outcome_key)
         CROSS JOIN LATERAL (SELECT ctid AS place FROM farrier.schedule WHERE kind = of_kind AND id = r.id) s
         WHERE r.lane IS NOT NULL AND (all_won OR r.id = ANY (won))
    )
    UPDATE farrier.schedule s
       SET owner = CASE WHEN ours.keep THEN controller END,
           claim_token = CASE WHEN ours.keep THEN next_token END,
           claimed_wake_seq = CASE WHEN ours.keep THEN s.wake_seq END,
           outcome_key = coalesce(ours.outcome_key, s.outcome_key),
           reruns = coalesce(s.reruns + ours.step, 0),
           lane = CASE WHEN s.wake_seq = s.claimed_wake_seq THEN ours.lane ELSE 0 END,
           due_at = farrier.now() + CASE WHEN ours.keep THEN next_lease
                                         WHEN s.wake_seq = s.claimed_wake_seq THEN ours.delay
                                         ELSE interval '0' END
      FROM ours
     WHERE s.ctid = ours.place
    RETURNING s.id, 'committed', s.lane = 0 AND NOT ours.keep, ours.keep, s.outcome_key, s.reruns;
    -- Off the schedule, unless a wake came in: then the row stays for one more run.
    IF array_position(lanes, NULL) IS NOT NULL THEN
        RETURN QUERY
        WITH ended AS (
            SELECT r.id FROM unnest(ids, lanes) r (id, lane) WHERE r.lane IS NULL AND (all_won OR r.id = ANY (won))
        ), gone AS (
            DELETE FROM farrier.schedule s USING ended
             WHERE s.kind = of_kind AND s.id = ended.id AND s.wake_seq = s.claimed_wake_seq
            RETURNING s.id
        ), woken AS (
            UPDATE farrier.schedule s
               SET owner = NULL, claim_token = NULL, claimed_wake_seq = NULL, lane = 0, due_at = farrier.now()
              FROM ended
             WHERE s.kind = of_kind AND s.id = ended.id AND s.wake_seq <> s.claimed_wake_seq
            RETURNING s.id
        )
        SELECT g.id, 'committed', false, false, NULL::integer, NULL::smallint FROM gone g
        UNION ALL SELECT w.id, 'committed', true, false, NULL::integer, NULL::smallint FROM woken w;
    END IF;
    -- Here, and not when the answer is on its way: what they refuse was never committed.
    SET CONSTRAINTS ALL IMMEDIATE;
END $$;

SELECT farrier.grant_rights();
