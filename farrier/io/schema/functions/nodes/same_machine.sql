-- Returns the names of other nodes that recorded the same machine as this node.
CREATE OR REPLACE FUNCTION farrier.same_machine(of_node bigint) RETURNS text[]
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
    SELECT coalesce(array_agg(DISTINCT n.name ORDER BY n.name), '{}')
      FROM node_identities mine
      JOIN node_identities theirs ON theirs.kind = mine.kind AND theirs.value = mine.value AND theirs.node_id <> mine.node_id
      JOIN nodes n ON n.id = theirs.node_id
     WHERE mine.node_id = of_node AND NOT mine.shared AND NOT theirs.shared;
$$;
