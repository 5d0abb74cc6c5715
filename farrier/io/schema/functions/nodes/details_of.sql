-- Returns the details of a node, which intent `set` may change, as history records them.
CREATE OR REPLACE FUNCTION farrier.details_of(node farrier.nodes) RETURNS jsonb
    LANGUAGE sql STABLE SET search_path = farrier, pg_temp
    RETURN (SELECT to_jsonb(c) FROM farrier.columns_of(node) c) || jsonb_build_object(
        'macs', (SELECT coalesce(jsonb_agg(m.mac ORDER BY m.mac), '[]') FROM farrier.node_macs m WHERE m.node_id = node.id));
