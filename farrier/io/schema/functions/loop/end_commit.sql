-- Ends a commit of runs of one kind: records what their resources do not store, and returns each run that was not written with its
-- verdict: `lost` if begin_commit returned it, `conflict` if the writer wrote nothing for it because its snapshot is outdated,
-- `deferred` if the writer wrote nothing because the run has to wait (it is then due after the delay in dues), and `locked` if the
-- writer wrote nothing because another transaction has locked the resource (the delay is null). All other runs are committed; a row
-- without id and verdict says so. Arrays with the same prefix have an element for each row: moved_ are moves, with their `texts` (see
-- record_moves), ended_ are runs with the places of their outcomes among `outcomes` and `keys`, and seen_ are the wakes in the snapshots
-- of the runs, which this function deletes. Skips the rows of runs that were not written.
CREATE OR REPLACE FUNCTION farrier.end_commit(
    of_kind text, controller uuid, lost bigint[], unwritten bigint[], dues interval[],
    moved_runs bigint[], moved_versions bigint[], moved_since float8[], moved_texts integer[],
    layers text[], from_values text[], to_values text[], causes text[], reasons text[], sources text[],
    ended_runs bigint[], ended_as integer[], outcomes jsonb[], keys integer[], seen_runs bigint[], seen_wakes uuid[])
    RETURNS TABLE (id bigint, verdict text, due_in interval)
    LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    without bigint[] := lost;
    updated bigint;
BEGIN
    IF unwritten IS NOT NULL THEN
        without := lost || unwritten;
        RETURN QUERY SELECT c.run, CASE WHEN c.due_in IS NULL THEN 'locked' WHEN c.due_in > interval '0' THEN 'deferred' ELSE 'conflict' END,
                            coalesce(c.due_in, '0')
                       FROM unnest(unwritten, dues) c (run, due_in);
    END IF;
    IF moved_runs <> '{}' THEN
        PERFORM farrier.record_moves(of_kind, controller, without, moved_runs, moved_versions, moved_since, moved_texts,
                                     layers, from_values, to_values, causes, reasons, sources);
    END IF;
    IF ended_runs <> '{}' THEN
        -- Not only an INSERT with ON CONFLICT, which would lock each row before it updates the row.
        UPDATE farrier.outcomes o
           SET at = farrier.now(), outcome = outcomes[r.place], key = keys[r.place]
          FROM unnest(ended_runs, ended_as) r (run, place)
         WHERE o.kind = of_kind AND o.id = r.run AND r.run <> ALL (without)
           AND (o.key, o.outcome) IS DISTINCT FROM (keys[r.place], outcomes[r.place]);
        GET DIAGNOSTICS updated = ROW_COUNT;
        IF updated < cardinality(ended_runs) THEN
            INSERT INTO farrier.outcomes (kind, id, at, outcome, key)
            SELECT of_kind, r.run, farrier.now(), outcomes[r.place], keys[r.place]
              FROM unnest(ended_runs, ended_as) r (run, place) WHERE r.run <> ALL (without)
                ON CONFLICT DO NOTHING;
        END IF;
    END IF;
    IF seen_runs <> '{}' THEN
        -- Finds each wake by its key: a join planned while the table was empty would read all wakes of the kind. Wakes
        -- are never updated, so a ctid stays valid.
        DELETE FROM farrier.wakes w
         WHERE w.ctid = ANY (ARRAY(
                   SELECT found.ctid
                     FROM unnest(seen_runs, seen_wakes) r (run, wake)
                    CROSS JOIN LATERAL (
                          SELECT x.ctid FROM farrier.wakes x
                           WHERE x.kind = of_kind AND x.resource = r.run AND x.id = r.wake OFFSET 0) found
                    WHERE r.run <> ALL (without)));
    END IF;
    RETURN QUERY SELECT r, 'lost', interval '0' FROM unnest(lost) r;
    -- Checks deferred constraints before the verdicts are returned, so that a refused run is never reported as committed.
    SET CONSTRAINTS ALL IMMEDIATE;
    RETURN NEXT;
END $$;
