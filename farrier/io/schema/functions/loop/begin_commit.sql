-- Begins a commit of runs of one kind: locks the shards, and returns the runs among `ids` whose shards the controller does not own
-- under these epochs. Waits for a lock, here and later in the statement, for at most lock_patience. With is_volatile, the COMMIT does
-- not wait for the disk. The statement that commits then calls the kind's writer, which writes nothing for the lost runs. The writer
-- locks the resources, compares their versions, skips resources that another transaction has locked, and writes everything else. It
-- returns the other runs for which it wrote nothing, with due_in: 0 if a run's snapshot is outdated, a delay if the run has to wait,
-- null if its resource is locked. Finally, the statement calls end_commit.
CREATE OR REPLACE FUNCTION farrier.begin_commit(
    of_kind text, controller uuid, of_shards smallint[], epochs bigint[], lock_patience text, ids bigint[], is_volatile boolean)
    RETURNS bigint[]
    LANGUAGE plpgsql AS $$
DECLARE
    held   smallint[];
    unused text;
BEGIN
    -- A client may have locked other rows that one run writes, and all runs of the call would wait for that client. So this
    -- call waits only briefly, and the controller then looks for that run.
    -- An assignment, unlike PERFORM, executes no query.
    unused := set_config('lock_timeout', lock_patience, true);
    IF is_volatile THEN
        unused := set_config('synchronous_commit', 'off', true);
    END IF;
    held := farrier.hold_shards(of_kind, controller, of_shards, epochs);
    RETURN CASE WHEN cardinality(held) = cardinality(of_shards) THEN '{}'
                ELSE ARRAY(SELECT r FROM unnest(ids) r WHERE farrier.shard_of(r) <> ALL (held)) END;
END $$;
