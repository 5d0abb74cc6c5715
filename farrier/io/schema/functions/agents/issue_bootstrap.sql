-- Returns a new bootstrap token for a node and revokes the node's unused tokens. The token is returned only here; the
-- database keeps its digest. FR400 for an invalid lifetime, FR404 for an unknown node.
CREATE OR REPLACE FUNCTION farrier.issue_bootstrap(node text, ttl interval DEFAULT '72 hours') RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    target bigint := find_node(node);
    token text := bootstrap_token(new_secret());
BEGIN
    PERFORM check_ttl(ttl);
    PERFORM revoke_bootstrap(node);
    INSERT INTO bootstrap_tokens (hash, node_id, expires_at) VALUES (digest(token), target, farrier.now() + ttl);
    RETURN token;
END $$;
