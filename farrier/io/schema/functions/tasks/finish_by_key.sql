-- Ends a task as finish_task does, for a server for agents, which knows the digest of the agent's key.
CREATE OR REPLACE FUNCTION farrier.finish_by_key(key bytea, task bigint, lease_token uuid, succeeded boolean, result jsonb, evidence jsonb DEFAULT NULL) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp SET lock_timeout = '2s' AS $$
BEGIN
    IF NOT is_ended_so(task, lease_token, succeeded) THEN
        PERFORM end_task(agent_of(prove_key(key)), task, lease_token, succeeded, result, evidence);
    END IF;
END $$;
