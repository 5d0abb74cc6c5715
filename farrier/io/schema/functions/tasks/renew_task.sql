-- Extends the lease of a task of a node's agent and returns its new end. FR403 for a wrong key, FR410 for a task that is not, or
-- no longer, the agent's, which must stop work.
CREATE OR REPLACE FUNCTION farrier.renew_task(node text, task bigint, lease_token uuid, agent_key text, lease interval DEFAULT '60 seconds') RETURNS timestamptz
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    RETURN keep_task(agent_of(prove_agent(node, agent_key)), task, lease_token, lease);
END $$;
