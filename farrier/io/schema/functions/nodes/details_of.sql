-- Returns the values of a node that intent `set` may change, as history records them.
CREATE OR REPLACE FUNCTION farrier.details_of(node farrier.nodes) RETURNS jsonb
    LANGUAGE sql STABLE SET search_path = farrier, pg_temp
    RETURN jsonb_build_object('site', node.site, 'model', node.model, 'labels', node.labels, 'maas_id', node.maas_id,
        'agentless', node.agentless, 'auto_manage', node.auto_manage,
        'macs', (SELECT coalesce(jsonb_agg(m.mac ORDER BY m.mac), '[]') FROM farrier.node_macs m WHERE m.node_id = node.id));
