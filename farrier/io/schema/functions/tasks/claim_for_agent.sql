-- Claims the oldest queued task of a node among types for the node's agent, and returns it with its lease; no row if there is none or
-- the node is paused. With claim_key, a repeated claim returns the same task while its lease lasts: a lost reply loses no task.
-- Locks the agent's row, so that a repeated call waits for the first. Called by claim_task and claim_by_key.
CREATE OR REPLACE FUNCTION farrier.claim_for_agent(target bigint, types text[], lease interval, claim_key uuid)
    RETURNS TABLE (task bigint, node_id bigint, node_name text, type text, params jsonb, attempt integer, lease_token uuid, lease_until timestamptz)
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
#variable_conflict use_column
BEGIN
    IF claim_for_agent.claim_key IS NOT NULL THEN
        PERFORM FROM node_agents a WHERE a.node_id = target FOR NO KEY UPDATE;
        RETURN QUERY
        SELECT t.id, t.node_id, n.name, t.type, t.params, t.attempt, t.lease_token, t.lease_until
          FROM node_tasks t JOIN nodes n ON n.id = t.node_id
         WHERE t.node_id = target AND t.ended_at IS NULL AND t.claim_key = claim_for_agent.claim_key
           AND t.claimed_by = agent_of(target) AND t.lease_until > farrier.now();
        IF FOUND THEN RETURN; END IF;
    END IF;
    RETURN QUERY SELECT * FROM take_task(agent_of(target), claim_for_agent.types, target, NULL, claim_for_agent.lease, claim_for_agent.claim_key);
END $$;
