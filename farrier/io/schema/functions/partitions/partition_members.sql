-- Returns the members of a partition that has not ended, by its name or id; the members of all partitions for null.
CREATE OR REPLACE FUNCTION farrier.partition_members(partition text DEFAULT NULL)
    RETURNS TABLE (partition text, guid text, owner text, node text, membership text, state text, reason text, since timestamptz)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
    SELECT p.name, m.guid, m.owner, n.name, m.membership, m.state, m.reason, m.since
      FROM ib_members m JOIN ib_partitions p ON p.id = m.partition LEFT JOIN nodes n ON n.id = m.node
     WHERE $1 IS NULL OR p.id = (SELECT find_resource('ib_partition', $1))  -- a subquery, evaluated once and not for each member
     ORDER BY p.name, m.owner, m.guid;
$$;
