-- Returns the other nodes whose machines have a value in common with this node's machine, as texts such as `the UUID of gpu-1`. Their
-- other values differ, so farrier does not treat them as the same machine.
CREATE OR REPLACE FUNCTION farrier.alike_machines(of_node bigint) RETURNS text[]
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
    SELECT coalesce(array_agg(DISTINCT a.text ORDER BY a.text), '{}')
      FROM (SELECT CASE mine.kind WHEN 'uuid' THEN 'the UUID' WHEN 'serial' THEN 'the serial number' ELSE 'a MAC address' END
                   || ' of ' || n.name AS text
              FROM node_identities mine
              JOIN node_identities theirs ON theirs.kind = mine.kind AND theirs.value = mine.value AND theirs.node_id <> mine.node_id
              JOIN nodes n ON n.id = theirs.node_id
             WHERE mine.node_id = of_node AND (mine.shared OR theirs.shared)) a;
$$;
