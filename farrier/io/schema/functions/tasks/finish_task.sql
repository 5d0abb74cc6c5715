-- The same call again, after a lost reply, changes nothing and succeeds, though the task may have ended the agent.
CREATE OR REPLACE FUNCTION farrier.finish_task(node text, task bigint, lease_token uuid, agent_key text, succeeded boolean, result jsonb DEFAULT NULL) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    IF NOT is_ended_so(task, lease_token, succeeded) THEN
        PERFORM end_task(agent_of(prove_agent(node, agent_key)), task, lease_token, succeeded, result);
    END IF;
END $$;
