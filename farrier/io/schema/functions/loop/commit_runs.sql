-- Commits runs of one kind, each whole or not at all. The verdict of a run is `lost` if the controller does not own the resource's
-- shard under this epoch, `conflict` if the writer wrote nothing of it, and `committed` otherwise. Locks shards, then resources,
-- each in their order, and waits for a lock for 50 ms at most, or for a second if patient.
-- `writer` names the kind's own function (jsonb) RETURNS TABLE (run bigint, due_in interval). It compares the versions in section
-- `runs`, writes the states and everything else in changes, and returns the runs of which it wrote nothing because what they were
-- decided on has changed; these are due after due_in. The wakes that a run's snapshot saw are deleted with it.
CREATE OR REPLACE FUNCTION farrier.commit_runs(
    of_kind text, controller uuid, of_shards smallint[], epochs bigint[], patient boolean, writer text, changes jsonb, ids bigint[],
    woken bigint[], wakes uuid[],
    moved bigint[], versions bigint[], layers text[], from_values text[], to_values text[], entered timestamptz[],
    causes text[], reasons text[], sources text[],
    told bigint[], outcomes text[], keys integer[])
    RETURNS TABLE (id bigint, verdict text, due_in interval)
    LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    held smallint[];
    won bigint[] := ids;
    failed_runs bigint[];
    failed_dues interval[];
    all_won boolean;
    unused text;
BEGIN
    -- Clients may hold rows that a run writes, and all runs of the call wait for them together: only for as long as it takes to
    -- notice. The controller then commits that run alone, with patience.
    -- An assignment, which takes no query, unlike PERFORM.
    unused := set_config('lock_timeout', CASE WHEN patient THEN '1s' ELSE '50ms' END, true);
    -- What a run only says, and the wakes that it saw, are not worth waiting for the disk: after a crash of the server everything is
    -- loaded and run again.
    IF moved = '{}' THEN
        IF NOT EXISTS (SELECT FROM jsonb_each(changes - 'runs') e WHERE e.value <> '[]') THEN
            unused := set_config('synchronous_commit', 'off', true);
        END IF;
    END IF;
    held := farrier.hold_shards(of_kind, controller, of_shards, epochs);
    IF cardinality(held) < cardinality(of_shards) THEN
        won := ARRAY(SELECT r FROM unnest(ids) r WHERE farrier.shard_of(r) = ANY (held));
        RETURN QUERY SELECT r, 'lost', interval '0' FROM unnest(ids) r WHERE r <> ALL (won);
        IF won = '{}' THEN RETURN; END IF;
        changes := farrier.filter_runs(changes, won);
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
            RETURN QUERY SELECT f.run, 'conflict', f.due_in FROM unnest(failed_runs, failed_dues) f (run, due_in);
            won := ARRAY(SELECT w FROM unnest(won) w WHERE w <> ALL (failed_runs));
        END IF;
    END IF;
    all_won := cardinality(won) = cardinality(ids);

    IF cardinality(moved) > 0 THEN
        PERFORM farrier.record_moves(of_kind, controller, CASE WHEN all_won THEN NULL ELSE won END, moved, versions, layers,
            from_values, to_values, commit_runs.entered, causes, reasons, sources);
    END IF;
    IF cardinality(told) > 0 THEN
        INSERT INTO farrier.outcomes AS o (kind, id, at, outcome, key)
        SELECT of_kind, r.id, farrier.now(), r.outcome::jsonb, r.key FROM unnest(told, commit_runs.outcomes, keys) AS r (id, outcome, key)
         WHERE all_won OR r.id = ANY (won)
            ON CONFLICT (kind, id) DO UPDATE SET at = excluded.at, outcome = excluded.outcome, key = excluded.key;
    END IF;
    IF cardinality(woken) > 0 THEN
        -- Each by its key: a join planned while the table was empty would read all wakes of the kind. No row of it is updated.
        DELETE FROM farrier.wakes w
         WHERE w.ctid = ANY (ARRAY(
                   SELECT found.ctid
                     FROM unnest(woken, commit_runs.wakes) r (resource, id)
                    CROSS JOIN LATERAL (
                          SELECT x.ctid FROM farrier.wakes x
                           WHERE x.kind = of_kind AND x.resource = r.resource AND x.id = r.id OFFSET 0) found
                    WHERE all_won OR r.resource = ANY (won)));
    END IF;
    -- Checks deferred constraints before the verdicts are returned: what they refuse is never reported as committed.
    SET CONSTRAINTS ALL IMMEDIATE;
    RETURN QUERY SELECT w, 'committed', interval '0' FROM unnest(won) w;
END $$;
