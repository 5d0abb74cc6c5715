-- Commits runs of one kind, each whole or not at all. The verdict of a run is `lost` if the controller does not own the
-- resource's shard under this epoch, `conflict` if the writer wrote nothing for it, and `committed` otherwise. Locks
-- shards, then resources, both in ascending order. Waits for a lock for at most 50 ms, or for a second if patient.
-- `changes` and `records` are objects of arrays, the sections, whose elements name their run. `changes` is empty, or is
-- passed to `writer`, the kind's function (jsonb) RETURNS TABLE (run bigint, due_in interval). The writer compares the
-- versions in section `runs`, writes the states and everything else in changes, and returns the runs for which it wrote
-- nothing because their snapshots are outdated; these are due after due_in. Sections of `records`: `moves` (see
-- record_moves), `outcomes` [{run, outcome, key}], and `wakes` [{run, wake}], the wakes in the snapshots of the runs,
-- which this function deletes.
CREATE OR REPLACE FUNCTION farrier.commit_runs(
    of_kind text, controller uuid, of_shards smallint[], epochs bigint[], patient boolean, writer text, ids bigint[], changes jsonb,
    records jsonb)
    RETURNS TABLE (id bigint, verdict text, due_in interval)
    LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    held smallint[];
    won bigint[] := ids;
    failed_runs bigint[];
    failed_dues interval[];
    unused text;
BEGIN
    -- A client may have locked rows that one run writes, and all runs of the call would wait for that client. So this
    -- call waits only briefly, and the controller then commits that run alone, with `patient`.
    -- An assignment, unlike PERFORM, executes no query.
    unused := set_config('lock_timeout', CASE WHEN patient THEN '1s' ELSE '50ms' END, true);
    -- Outcomes and wakes alone need not wait for the disk: after a crash of the server everything is loaded and run again.
    IF NOT records ? 'moves' AND NOT EXISTS (SELECT FROM jsonb_each(changes - 'runs') e WHERE e.value <> '[]') THEN
        unused := set_config('synchronous_commit', 'off', true);
    END IF;
    held := farrier.hold_shards(of_kind, controller, of_shards, epochs);
    IF cardinality(held) < cardinality(of_shards) THEN
        won := ARRAY(SELECT r FROM unnest(ids) r WHERE farrier.shard_of(r) = ANY (held));
        RETURN QUERY SELECT r, 'lost', interval '0' FROM unnest(ids) r WHERE r <> ALL (won);
        IF won = '{}' THEN RETURN; END IF;
        changes := farrier.filter_runs(changes, won);
    END IF;

    IF changes <> '{}' THEN
        -- EXECUTE parses and plans on each call, which takes a tenth of the time of one run. Nearly all commits are of
        -- nodes, so a static statement calls the writer of nodes.
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
    IF cardinality(won) < cardinality(ids) THEN
        records := farrier.filter_runs(records, won);
    END IF;

    IF records ? 'moves' THEN
        PERFORM farrier.record_moves(of_kind, controller, records -> 'moves');
    END IF;
    IF records ? 'outcomes' THEN
        INSERT INTO farrier.outcomes AS o (kind, id, at, outcome, key)
        SELECT of_kind, r.run, farrier.now(), r.outcome, r.key
          FROM jsonb_to_recordset(records -> 'outcomes') r (run bigint, outcome jsonb, key integer)
            ON CONFLICT (kind, id) DO UPDATE SET at = excluded.at, outcome = excluded.outcome, key = excluded.key;
    END IF;
    IF records ? 'wakes' THEN
        -- Finds each wake by its key: a join planned while the table was empty would read all wakes of the kind. Wakes
        -- are never updated, so a ctid stays valid.
        DELETE FROM farrier.wakes w
         WHERE w.ctid = ANY (ARRAY(
                   SELECT found.ctid
                     FROM jsonb_to_recordset(records -> 'wakes') r (run bigint, wake uuid)
                    CROSS JOIN LATERAL (
                          SELECT x.ctid FROM farrier.wakes x
                           WHERE x.kind = of_kind AND x.resource = r.run AND x.id = r.wake OFFSET 0) found));
    END IF;
    -- Checks deferred constraints before the verdicts are returned, so that a refused run is never reported as committed.
    SET CONSTRAINTS ALL IMMEDIATE;
    RETURN QUERY SELECT w, 'committed', interval '0' FROM unnest(won) w;
END $$;
