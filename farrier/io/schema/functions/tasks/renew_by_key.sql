-- Extends a lease as renew_task does, for a server for agents, which knows the digest of the agent's key.
CREATE OR REPLACE FUNCTION farrier.renew_by_key(key bytea, task bigint, lease_token uuid, lease interval DEFAULT '60 seconds') RETURNS timestamptz
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp SET lock_timeout = '2s' AS $$
BEGIN
    RETURN keep_task(agent_of(prove_key(key)), task, lease_token, lease);
END $$;
