-- The calls of a node's agent: its own node's tasks, proven by its key. `claim_task` returns no row when there is none.
CREATE OR REPLACE FUNCTION farrier.claim_task(node text, types text[], agent_key text, lease interval DEFAULT '60 seconds')
    RETURNS TABLE (task bigint, node_id bigint, node_name text, type text, params jsonb, attempt integer, lease_token uuid, lease_until timestamptz)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    target bigint := prove_agent(node, agent_key);
BEGIN
    RETURN QUERY SELECT * FROM take_task(agent_of(target), types, target, NULL, lease);
END $$;
