-- Returns what stage cleanup_secrets of a decommission still has to remove, as a JSON array of texts; null in any other stage. In
-- PL/pgSQL for the reason given at is_restored.
CREATE OR REPLACE FUNCTION farrier.secrets_left(of_node bigint, of_decommission bigint) RETURNS jsonb
    LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT coalesce(jsonb_agg(l.what) FILTER (WHERE l.what IS NOT NULL), '[]')
              FROM farrier.node_decommissions d
              LEFT JOIN LATERAL (VALUES
                   ('a bootstrap token', EXISTS (SELECT FROM farrier.bootstrap_tokens t
                                                  WHERE t.node_id = of_node AND t.used_at IS NULL AND t.revoked_at IS NULL)),
                   ('the agent''s key', EXISTS (SELECT FROM farrier.node_agents a WHERE a.node_id = of_node)),
                   ('addresses or memberships', farrier.has_networks(of_node))) l (what, there) ON l.there
             WHERE d.id = of_decommission AND d.stage = 'cleanup_secrets' HAVING count(d.id) > 0);
END $$;
