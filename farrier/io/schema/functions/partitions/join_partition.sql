-- Makes a port a member of a partition for an owner, and returns the member's state: `pending` until UFM has the
-- member, then `applied`; `refused` while UFM refuses the member. May be repeated; a call with another membership or
-- node changes the member. FR400 for malformed arguments, FR404 for an unknown partition or node, FR409 for a partition
-- that is being deleted and for a port that another owner made a member.
CREATE OR REPLACE FUNCTION farrier.join_partition(partition text, guid text, owner text, node bigint DEFAULT NULL, membership text DEFAULT 'full')
    RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
#variable_conflict use_column
DECLARE
    port text := ib_guid(join_partition.guid);
    of_id bigint := find_resource('ib_partition', join_partition.partition);
    known ib_members;
    answer text;
BEGIN
    IF join_partition.owner IS NULL OR join_partition.owner !~ E'\\S' OR char_length(join_partition.owner) > 253 THEN
        RAISE EXCEPTION 'owner must name the owner of the port, in 1 to 253 characters' USING ERRCODE = 'FR400';
    END IF;
    IF join_partition.membership IS NULL OR join_partition.membership NOT IN ('full', 'limited') THEN
        RAISE EXCEPTION 'membership must be full or limited; got %', coalesce(quote_literal(join_partition.membership), 'null')
            USING ERRCODE = 'FR400';
    END IF;
    IF join_partition.node IS NOT NULL AND NOT EXISTS (SELECT FROM nodes n WHERE n.id = join_partition.node AND n.status <> 'deleted') THEN
        RAISE EXCEPTION 'no node has ID %', join_partition.node USING ERRCODE = 'FR404';
    END IF;
    PERFORM refuse_joining(of_id);
    SELECT m.* INTO known FROM ib_members m WHERE m.partition = of_id AND m.guid = port;
    IF known.state <> 'leaving' AND known.owner = join_partition.owner AND known.membership = join_partition.membership
       AND known.node IS NOT DISTINCT FROM join_partition.node THEN
        RETURN known.state;
    END IF;
    PERFORM enqueue('ib_partition', of_id);
    INSERT INTO ib_members AS m (partition, guid, owner, node, membership)
    VALUES (of_id, port, join_partition.owner, join_partition.node, join_partition.membership)
        ON CONFLICT ON CONSTRAINT ib_members_pkey DO UPDATE
       SET owner = excluded.owner, node = excluded.node, membership = excluded.membership, state = 'pending', reason = NULL,
           since = farrier.now(), seq = m.seq + 1
     WHERE m.owner = excluded.owner OR m.state = 'leaving'
    RETURNING m.state INTO answer;
    IF answer IS NULL THEN
        PERFORM refuse_other_owner(of_id, port);
    END IF;
    RETURN answer;
END $$;
