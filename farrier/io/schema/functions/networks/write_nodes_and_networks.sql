-- The nodes of a commit, and what they use: `networks` [{run, segments, partitions}]. A run that cannot have
-- its locks at once, or finds something changed as it takes it, is decided anew in a second, by itself: no other run of the
-- commit knows of it. A run is whole or not at all, hence a subtransaction for each of these few.
CREATE OR REPLACE FUNCTION farrier.write_nodes_and_networks(changes jsonb) RETURNS TABLE (run bigint, due_in interval)
    LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    users bigint[] := '{}';
    wish record;
    late interval;
    ours boolean;
BEGIN
    IF changes ? 'networks' THEN
        FOR wish IN
            SELECT c.* FROM jsonb_to_recordset(changes -> 'networks') c (run bigint, segments text[], partitions text[])
             WHERE c.segments <> '{}' OR c.partitions <> '{}' OR farrier.has_networks(c.run) ORDER BY c.run LOOP
            users := users || wish.run;
            late := NULL;
            ours := true;
            BEGIN
                PERFORM farrier.lock_networks(wish.run, wish.segments, wish.partitions);
                ours := false;
                SELECT w.due_in INTO late FROM farrier.write_nodes(farrier.of_runs(changes, ARRAY[wish.run])) w;
                ours := true;
                IF late IS NULL THEN
                    PERFORM farrier.use_networks(wish.run, wish.segments, wish.partitions);
                END IF;
            EXCEPTION WHEN lock_not_available OR SQLSTATE 'FR404' OR SQLSTATE 'FR409' THEN
                IF NOT ours THEN RAISE; END IF;
                late := interval '1 second';
            END;
            IF late IS NOT NULL THEN RETURN QUERY SELECT wish.run, late; END IF;
        END LOOP;
    END IF;
    IF users <> '{}' THEN
        changes := farrier.runs_without(changes, users);
        IF jsonb_array_length(changes -> 'runs') = 0 THEN RETURN; END IF;
    END IF;
    RETURN QUERY SELECT w.run, w.due_in FROM farrier.write_nodes(changes) w;
END $$;
