-- Ends a task of a node's agent. May be repeated: after a lost reply the same call changes nothing and succeeds. Checks
-- for a repeated call before it checks the key, because the task itself may have removed the agent. `evidence` of a cleaning is
-- {"by", "devices": [{"kind", "serial", "result", "method", …}]} (farrier.model.node.evidence). FR403 for a wrong key, FR410 for a task
-- that is not, or no longer, the agent's.
CREATE OR REPLACE FUNCTION farrier.finish_task(node text, task bigint, lease_token uuid, agent_key text, succeeded boolean, result jsonb DEFAULT NULL, evidence jsonb DEFAULT NULL) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    IF NOT is_ended_so(task, lease_token, succeeded) THEN
        PERFORM end_task(agent_of(prove_agent(node, agent_key)), task, lease_token, succeeded, result, evidence);
    END IF;
END $$;
