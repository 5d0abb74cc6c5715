-- Claims the oldest queued task of the agent's own node among types, and returns it with its lease; no row if there is none or the
-- node is paused. A repeated claim with the same claim_key returns the same lease. Called by agents, which authenticate with their
-- key. FR400 for malformed arguments, FR403 for a wrong key, FR404 for an unknown node.
CREATE OR REPLACE FUNCTION farrier.claim_task(node text, types text[], agent_key text, lease interval DEFAULT '60 seconds', claim_key uuid DEFAULT NULL)
    RETURNS TABLE (task bigint, node_id bigint, node_name text, type text, params jsonb, attempt integer, lease_token uuid, lease_until timestamptz)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    RETURN QUERY SELECT * FROM claim_for_agent(prove_agent(node, agent_key), types, lease, claim_key);
END $$;
