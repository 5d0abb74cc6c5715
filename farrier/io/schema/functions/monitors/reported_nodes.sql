-- Returns the nodes that a monitor means: by their exact name, by the serial number of their machine, or (found_by null) by name or
-- ID. More than one node may have a serial number, because manufacturers number their machines independently.
CREATE OR REPLACE FUNCTION farrier.reported_nodes(given text, found_by text) RETURNS SETOF farrier.nodes
    LANGUAGE sql STABLE SET search_path = farrier, pg_temp AS $$
    SELECT n.* FROM nodes n WHERE found_by IS DISTINCT FROM 'serial' AND n.name = given AND n.status <> 'deleted'
     UNION ALL
    SELECT n.* FROM nodes n
     WHERE found_by IS NULL AND n.id = CASE WHEN given ~ '^[0-9]{1,18}$' THEN given::bigint END AND n.status <> 'deleted'
     UNION ALL
    SELECT n.* FROM nodes n
     WHERE found_by = 'serial' AND n.status <> 'deleted' AND n.id IN (
           SELECT i.node_id FROM node_identities i
            WHERE i.kind = 'serial' AND substr(i.value, strpos(i.value, '/') + 1) = lower(btrim(given, E' \t\r\n')))
$$;
