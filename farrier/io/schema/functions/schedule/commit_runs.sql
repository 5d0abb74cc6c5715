-- Commits runs of one kind, each whole or not at all, and gives their schedule rows back. Locks the schedule rows in the order of
-- ids, with SKIP LOCKED, and compares their tokens; if patient, it waits up to a second for them first. The verdict of a run is
-- `locked` for a row that another transaction holds, `lost` for another token, `conflict` for a run of which the writer wrote
-- nothing, and `committed` otherwise.
-- `writer` names the kind's own function (jsonb) RETURNS TABLE (run bigint, due_in interval). It writes the states and everything
-- else in changes, and returns the runs of which it wrote nothing because what they were decided on has changed; these are due
-- after due_in. A lane that is null takes the row off the schedule, unless the resource was enqueued meanwhile. In steps, 1
-- counts a rerun, 0 leaves the count, and null resets it. With a next_token, rows of counted reruns are `kept`: claimed under it
-- by the same controller for next_lease.
CREATE OR REPLACE FUNCTION farrier.commit_runs(
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
    unused text;
BEGIN
    -- Clients may hold rows that a run writes besides its own, and all runs of the call wait for them together: only for as long
    -- as it takes to notice. The controller then commits that run alone, with patience.
    -- An assignment, which takes no query, unlike PERFORM.
    unused := set_config('lock_timeout', CASE WHEN patient THEN '1s' ELSE '50ms' END, true);
    IF patient THEN
        PERFORM FROM farrier.schedule s WHERE s.kind = of_kind AND s.id = ANY (ids) ORDER BY s.id FOR NO KEY UPDATE;
    END IF;
    IF cardinality(ids) = 1 THEN
        SELECT ARRAY[s.id], CASE WHEN s.claim_token = tokens[1] THEN ARRAY[s.id] END INTO locked, won
          FROM farrier.schedule s WHERE s.kind = of_kind AND s.id = ids[1] FOR NO KEY UPDATE SKIP LOCKED;
    ELSE
        SELECT array_agg(l.id), array_agg(l.id) FILTER (WHERE l.claim_token = r.token) INTO locked, won
          FROM (SELECT s.id, s.claim_token FROM farrier.schedule s
                 WHERE s.kind = of_kind AND s.id = ANY (ids) ORDER BY s.id FOR NO KEY UPDATE SKIP LOCKED) l
          JOIN unnest(ids, tokens) r (id, token) USING (id);
    END IF;
    IF coalesce(cardinality(won), 0) < cardinality(ids) THEN
        RETURN QUERY SELECT r.id, CASE WHEN patient OR r.id = ANY (locked) THEN 'lost' ELSE 'locked' END,
                            false, false, NULL::integer, NULL::smallint
                       FROM unnest(ids) r (id) WHERE won IS NULL OR r.id <> ALL (won);
        IF won IS NULL THEN RETURN; END IF;
        changes := farrier.of_runs(changes, won);
    END IF;

    IF changes <> '{}' THEN
        -- Nearly all commits are of nodes, and EXECUTE parses and plans on each call: a tenth of the time of one run.
        IF writer = 'farrier.write_nodes_and_networks' THEN
            SELECT array_agg(w.run), array_agg(w.due_in) INTO failed_runs, failed_dues
              FROM farrier.write_nodes_and_networks(changes) w;
        ELSE
            EXECUTE format('SELECT array_agg(w.run), array_agg(w.due_in) FROM %s($1) w', writer::regproc)
               INTO failed_runs, failed_dues USING changes;
        END IF;
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
        PERFORM farrier.record_moves(of_kind, controller, CASE WHEN all_won THEN NULL ELSE won END, moved, versions, layers,
            from_values, to_values, commit_runs.entered, causes, reasons, sources, move_tokens);
    END IF;
    IF cardinality(told) > 0 THEN
        INSERT INTO farrier.outcomes AS o (kind, id, at, outcome)
        SELECT of_kind, r.id, farrier.now(), r.outcome::jsonb FROM unnest(told, commit_runs.outcomes) AS r (id, outcome)
         WHERE all_won OR r.id = ANY (won)
            ON CONFLICT (kind, id) DO UPDATE SET at = excluded.at, outcome = excluded.outcome;
    END IF;

    -- Each row is found by its key and updated by its ctid, whatever the planner estimates; see schedule/release.sql. A row that
    -- is kept takes over wake_seq: the load that follows sees the causes of all wake requests so far.
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
    -- Rows that leave the schedule, unless the resource was enqueued meanwhile: then the row stays for one more run.
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
    -- Checks deferred constraints before the verdicts are returned: what they refuse is never reported as committed.
    SET CONSTRAINTS ALL IMMEDIATE;
END $$;
