-- Returns the id of the node whose agent calls. Called before a task is looked up. FR403 for a wrong key, FR404 for an unknown node.
CREATE OR REPLACE FUNCTION farrier.prove_agent(node text, agent_key text) RETURNS bigint
    LANGUAGE plpgsql STABLE SET search_path = farrier, pg_temp AS $$
DECLARE
    target bigint := find_node(node);
BEGIN
    PERFORM check_agent_key(node, (SELECT a.key_hash FROM node_agents a WHERE a.node_id = target), agent_key);
    RETURN target;
END $$;
