-- Revokes the unused bootstrap tokens of a node. May be repeated. FR404 for an unknown node.
CREATE OR REPLACE FUNCTION farrier.revoke_bootstrap(node text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    target bigint := find_node(node);
BEGIN
    UPDATE bootstrap_tokens SET revoked_at = farrier.now() WHERE node_id = target AND used_at IS NULL AND revoked_at IS NULL;
END $$;
