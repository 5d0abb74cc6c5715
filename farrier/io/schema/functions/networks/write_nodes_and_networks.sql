-- Writes the nodes of a commit, and which segments and partitions they use. The writer of kind node. Section `networks` [{run,
-- segments, partitions}] lists these uses; write_nodes describes the other parameters. Each run that has or gets networks is written
-- in a subtransaction of its own. If a lock that it needs is taken, or if a segment or partition has changed, this run is due again
-- in a second; the other runs of the commit are not affected.
CREATE OR REPLACE FUNCTION farrier.write_nodes_and_networks(
    changes jsonb, without bigint[], runs bigint[], versions bigint[], writes integer[],
    commits uuid[], statuses text[], managements text[], workflows text[], causes text[])
    RETURNS TABLE (run bigint, due_in interval)
    LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    users bigint[] := '{}';
    wish record;
    late interval;
    ours boolean;
    unwritten boolean;
BEGIN
    IF without <> '{}' THEN
        changes := farrier.filter_runs(changes, ARRAY(SELECT r FROM unnest(runs) r WHERE r <> ALL (without)));
    END IF;
    IF changes ? 'networks' THEN
        FOR wish IN
            SELECT c.* FROM jsonb_to_recordset(changes -> 'networks') c (run bigint, segments text[], partitions text[])
             WHERE c.segments <> '{}' OR c.partitions <> '{}' OR farrier.has_networks(c.run) ORDER BY c.run LOOP
            users := users || wish.run;
            ours := true;
            BEGIN
                PERFORM farrier.lock_networks(wish.run, wish.segments, wish.partitions);
                ours := false;
                SELECT w.due_in INTO late FROM farrier.write_nodes(
                    farrier.filter_runs(changes, ARRAY[wish.run]), ARRAY(SELECT r FROM unnest(runs) r WHERE r <> wish.run),
                    runs, versions, writes, commits, statuses, managements, workflows, causes) w;
                unwritten := FOUND;
                ours := true;
                IF NOT unwritten THEN
                    PERFORM farrier.use_networks(wish.run, wish.segments, wish.partitions);
                END IF;
            EXCEPTION WHEN lock_not_available OR SQLSTATE 'FR404' OR SQLSTATE 'FR409' THEN
                IF NOT ours THEN RAISE; END IF;
                unwritten := true;
                late := interval '1 second';
            END;
            IF unwritten THEN RETURN QUERY SELECT wish.run, late; END IF;
        END LOOP;
    END IF;
    IF users <> '{}' THEN
        without := without || users;
        changes := farrier.filter_runs(changes, ARRAY(SELECT r FROM unnest(runs) r WHERE r <> ALL (without)));
    END IF;
    RETURN QUERY SELECT w.run, w.due_in FROM farrier.write_nodes(
        changes, without, runs, versions, writes, commits, statuses, managements, workflows, causes) w;
END $$;
