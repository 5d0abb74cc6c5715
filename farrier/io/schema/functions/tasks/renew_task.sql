-- Extends the lease of an agent's task. FR410: the task is no longer this claimant's, who must stop.
CREATE OR REPLACE FUNCTION farrier.renew_task(node text, task bigint, lease_token uuid, agent_key text, lease interval DEFAULT '60 seconds') RETURNS timestamptz
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    RETURN keep_task(agent_of(prove_agent(node, agent_key)), task, lease_token, lease);
END $$;
