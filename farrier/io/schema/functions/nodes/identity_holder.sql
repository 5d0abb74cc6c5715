-- Returns the node, other than except_node, to which the machine that bmc describes (as nodes.bmc) belongs, and the kind of identity that
-- matches; no row if there is none. A node that shares a value, but whose machine otherwise differs, is not that node (machines_match).
-- If bmc has no serial number, a MAC address with which a node was registered counts, too, unless only some of that node's addresses
-- match, and all addresses of except_node.
CREATE OR REPLACE FUNCTION farrier.identity_holder(bmc jsonb, except_node bigint) RETURNS TABLE (name text, kind text)
    LANGUAGE sql STABLE SET search_path = farrier, pg_temp AS $$
    WITH keys AS MATERIALIZED (SELECT k.* FROM identity_keys_of_bmc(bmc) k),
    machine AS MATERIALIZED (
        SELECT identities_of(bmc) AS identities,
               array(SELECT m::macaddr FROM jsonb_array_elements_text(bmc -> 'macs') m WHERE m ~* '^([0-9a-f]{2}[:-]){5}[0-9a-f]{2}$') AS macs
    ), registered AS (
        SELECT m.node_id, bool_and(m.mac = ANY (c.macs)) AS entirely
          FROM machine c, node_macs m
         WHERE m.node_id IN (SELECT r.node_id FROM node_macs r WHERE r.mac = ANY (c.macs))
           AND NOT EXISTS (SELECT FROM keys k WHERE k.kind = 'serial')
         GROUP BY m.node_id
    ), found AS (
        SELECT n.id, n.name, i.kind
          FROM keys k JOIN node_identities i USING (kind, value) JOIN nodes n ON n.id = i.node_id, machine c
         WHERE n.id <> except_node AND machines_match(c.identities, identities_of(n.bmc))
        UNION ALL
        SELECT n.id, n.name, 'mac'
          FROM registered r JOIN nodes n ON n.id = r.node_id, machine c
         WHERE n.id <> except_node
           AND (r.entirely OR NOT EXISTS (SELECT FROM registered o WHERE o.node_id = except_node AND o.entirely))
           AND NOT EXISTS (SELECT FROM keys k JOIN identity_keys_of_bmc(n.bmc) o ON o.kind = k.kind AND o.value <> k.value
                            WHERE k.kind = 'uuid')
    )
    SELECT f.name, f.kind FROM found f ORDER BY f.kind DESC, f.id LIMIT 1;
$$;
