-- Begins a commit of runs of one kind: locks the shards, and returns the runs whose shards the controller owns under these
-- epochs, with their part of changes and records. Waits for a lock, here and later in the statement, for at most
-- lock_patience. The statement that commits passes changes to the kind's writer, (jsonb) RETURNS TABLE (run
-- bigint, due_in interval), and the result to end_commit. `changes` and `records` are objects of arrays, the sections,
-- whose elements name their run. The writer locks the resources with the versions in section `runs`, and skips resources that
-- another transaction has locked. It writes the states and everything else in changes. It returns the runs for which it wrote
-- nothing, with due_in: 0 if a run's snapshot is outdated, a delay if the run has to wait, null if its resource is locked.
CREATE OR REPLACE FUNCTION farrier.begin_commit(
    of_kind text, controller uuid, of_shards smallint[], epochs bigint[], lock_patience text, ids bigint[], changes jsonb, records jsonb)
    RETURNS TABLE (held_runs bigint[], held_changes jsonb, held_records jsonb)
    LANGUAGE plpgsql AS $$
DECLARE
    held   smallint[];
    unused text;
BEGIN
    -- A client may have locked other rows that one run writes, and all runs of the call would wait for that client. So this
    -- call waits only briefly, and the controller then looks for that run.
    -- An assignment, unlike PERFORM, executes no query.
    unused := set_config('lock_timeout', lock_patience, true);
    -- Outcomes and wakes alone need not wait for the disk: after a crash of the server everything is loaded and run again.
    IF NOT records ? 'moves' AND NOT EXISTS (SELECT FROM jsonb_each(changes - 'runs') e WHERE e.value <> '[]') THEN
        unused := set_config('synchronous_commit', 'off', true);
    END IF;
    held := farrier.hold_shards(of_kind, controller, of_shards, epochs);
    held_runs := ids;
    IF cardinality(held) < cardinality(of_shards) THEN
        held_runs := ARRAY(SELECT r FROM unnest(ids) r WHERE farrier.shard_of(r) = ANY (held));
        changes := farrier.filter_runs(changes, held_runs);
        records := farrier.filter_runs(records, held_runs);
    END IF;
    held_changes := changes;
    held_records := records;
    RETURN NEXT;
END $$;
