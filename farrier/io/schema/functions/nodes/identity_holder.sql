-- Returns the node, other than except_node, to which a machine that reports these values belongs, and the kind of identity that
-- matches; no row if there is none. A MAC address with which a node was registered counts, too.
CREATE OR REPLACE FUNCTION farrier.identity_holder(serial text, uuid text, manufacturer text, macs jsonb, except_node bigint)
    RETURNS TABLE (name text, kind text)
    LANGUAGE sql STABLE SET search_path = farrier, pg_temp AS $$
    WITH keys AS (SELECT k.* FROM identity_keys(serial, uuid, manufacturer, macs) k), held AS (
        SELECT i.node_id, i.kind FROM keys k JOIN node_identities i USING (kind, value) WHERE i.holds
        UNION ALL
        SELECT m.node_id, 'mac' FROM keys k JOIN node_macs m ON m.mac = k.value::macaddr WHERE k.kind = 'mac'
    )
    SELECT n.name, h.kind FROM held h JOIN nodes n ON n.id = h.node_id
     WHERE h.node_id <> except_node ORDER BY h.kind DESC, h.node_id LIMIT 1;
$$;
