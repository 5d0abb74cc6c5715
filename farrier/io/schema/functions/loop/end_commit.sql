-- Ends a commit of runs of one kind: records what their resources do not store, and returns the verdict of each of `ids`:
-- `lost` if it is not among held_runs, `conflict` if the writer wrote nothing for it because its snapshot is outdated, `deferred`
-- if the writer wrote nothing because the run has to wait (it is then due after the delay in dues), `locked` if the writer wrote
-- nothing because another transaction has locked the resource (the delay is null), and `committed` otherwise. Sections of `records`: `moves` (see record_moves), `outcomes` [{run, outcome, key}],
-- and `wakes` [{run, wake}], the wakes in the snapshots of the runs, which this function deletes. See begin_commit.
CREATE OR REPLACE FUNCTION farrier.end_commit(
    of_kind text, controller uuid, ids bigint[], held_runs bigint[], records jsonb, unwritten bigint[], dues interval[])
    RETURNS TABLE (id bigint, verdict text, due_in interval)
    LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    won bigint[] := held_runs;
BEGIN
    IF unwritten IS NOT NULL THEN
        won := ARRAY(SELECT r FROM unnest(won) r WHERE r <> ALL (unwritten));
        records := farrier.filter_runs(records, won);
        RETURN QUERY SELECT c.run, CASE WHEN c.due_in IS NULL THEN 'locked' WHEN c.due_in > interval '0' THEN 'deferred' ELSE 'conflict' END,
                            coalesce(c.due_in, '0')
                       FROM unnest(unwritten, dues) c (run, due_in);
    END IF;
    IF records ? 'moves' THEN
        PERFORM farrier.record_moves(of_kind, controller, records -> 'moves');
    END IF;
    IF records ? 'outcomes' THEN
        INSERT INTO farrier.outcomes AS o (kind, id, at, outcome, key)
        SELECT of_kind, r.run, farrier.now(), r.outcome, r.key
          FROM jsonb_to_recordset(records -> 'outcomes') r (run bigint, outcome jsonb, key integer)
            ON CONFLICT (kind, id) DO UPDATE SET at = excluded.at, outcome = excluded.outcome, key = excluded.key
         WHERE (o.outcome, o.key) IS DISTINCT FROM (excluded.outcome, excluded.key);
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
    RETURN QUERY SELECT r, 'committed', interval '0' FROM unnest(won) r;
    RETURN QUERY SELECT r, 'lost', interval '0' FROM unnest(ids) r WHERE r <> ALL (held_runs);
END $$;
