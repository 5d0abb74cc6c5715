-- Ends a membership: the member is `leaving` until UFM has removed it, and is then deleted. May be repeated, and succeeds for a
-- port that never was a member. FR400 for a malformed GUID, FR404 for an unknown partition, FR409 for a member of another owner.
CREATE OR REPLACE FUNCTION farrier.leave_partition(partition text, guid text, owner text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
#variable_conflict use_column
DECLARE
    port text := ib_guid(leave_partition.guid);
    -- Also finds a partition that has ended, which has no members, so that a repeated call succeeds.
    of_id bigint := coalesce(any_resource('ib_partition', leave_partition.partition), find_resource('ib_partition', leave_partition.partition));
    known ib_members;
BEGIN
    -- The first read takes no lock: a call that changes nothing should hold no lock until its transaction ends.
    SELECT m.* INTO known FROM ib_members m WHERE m.partition = of_id AND m.guid = port;
    IF NOT FOUND OR (known.state = 'leaving' AND known.owner = leave_partition.owner) THEN RETURN; END IF;
    SELECT m.* INTO known FROM ib_members m WHERE m.partition = of_id AND m.guid = port FOR NO KEY UPDATE;
    IF NOT FOUND OR (known.state = 'leaving' AND known.owner = leave_partition.owner) THEN RETURN; END IF;
    IF known.owner IS DISTINCT FROM leave_partition.owner THEN
        PERFORM refuse_other_owner(of_id, port);
    END IF;
    PERFORM enqueue('ib_partition', of_id);
    UPDATE ib_members m SET state = 'leaving', reason = NULL, since = farrier.now(), seq = m.seq + 1
     WHERE m.partition = of_id AND m.guid = port;
END $$;
