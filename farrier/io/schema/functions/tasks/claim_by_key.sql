-- Claims as claim_task does, for a server for agents, which knows the digest of the agent's key.
CREATE OR REPLACE FUNCTION farrier.claim_by_key(key bytea, types text[], claim_key uuid, lease interval DEFAULT '60 seconds')
    RETURNS TABLE (task bigint, node_id bigint, node_name text, type text, params jsonb, attempt integer, lease_token uuid, lease_until timestamptz)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp SET lock_timeout = '2s' AS $$
BEGIN
    RETURN QUERY SELECT * FROM claim_for_agent(prove_key(key), types, lease, claim_key);
END $$;
