-- Returns why intent `set` cannot be accepted: the node has another version than the intent requires, or another node
-- has one of these values. Returns null if the intent can be accepted.
CREATE OR REPLACE FUNCTION farrier.set_conflict(of_node bigint, params jsonb) RETURNS text
    LANGUAGE plpgsql STABLE SET search_path = farrier, pg_temp AS $$
DECLARE
    addresses macaddr[] := read_macs(params -> 'macs');
    becomes jsonb := (SELECT details_of(n) FROM nodes n WHERE n.id = of_node) || given_details(params);
    found text;
BEGIN
    SELECT format('node %s has version %s, not %s', n.name, n.version, params ->> 'if_version') INTO found
      FROM nodes n WHERE n.id = of_node AND n.version <> (params ->> 'if_version')::bigint;
    IF found IS NOT NULL THEN RETURN found; END IF;
    SELECT format('the MAC address %s already belongs to node %s', m.mac, n.name) INTO found
      FROM node_macs m JOIN nodes n ON n.id = m.node_id
     WHERE m.mac = ANY (addresses) AND m.node_id <> of_node ORDER BY m.mac LIMIT 1;
    IF found IS NOT NULL THEN RETURN found; END IF;
    RETURN (SELECT format('node %s already has MAAS ID %s in site %s', n.name, n.maas_id, coalesce(n.site, '(none)'))
              FROM nodes n
             WHERE n.maas_id = becomes ->> 'maas_id' AND n.site IS NOT DISTINCT FROM becomes ->> 'site' AND n.status <> 'deleted' AND n.id <> of_node
             LIMIT 1);
END $$;
