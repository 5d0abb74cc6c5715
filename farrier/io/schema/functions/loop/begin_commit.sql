-- Begins a commit of runs of one kind: locks the shards, and returns the runs whose shards the controller owns under these
-- epochs, with their part of changes and records. Waits for a lock, here and later in the statement, for at most 50 ms,
-- or for a second if patient. The statement that commits passes changes to the kind's writer, (jsonb) RETURNS TABLE (run
-- bigint, due_in interval), and the result to end_commit. `changes` and `records` are objects of arrays, the sections,
-- whose elements name their run. The writer locks the resources in ascending order, compares the versions in section
-- `runs`, writes the states and everything else in changes, and returns the runs for which it wrote nothing because their
-- snapshots are outdated; these are due after due_in.
CREATE OR REPLACE FUNCTION farrier.begin_commit(
    of_kind text, controller uuid, of_shards smallint[], epochs bigint[], patient boolean, ids bigint[], changes jsonb, records jsonb)
    RETURNS TABLE (held_runs bigint[], held_changes jsonb, held_records jsonb)
    LANGUAGE plpgsql AS $$
DECLARE
    held   smallint[];
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
