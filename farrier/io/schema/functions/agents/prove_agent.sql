-- Checks the key of the calling agent, and returns the id of its node. Task functions call it before they look up a
-- task. FR403 for a wrong key, FR404 for an unknown node, FR409 for a node that is held after a restore.
CREATE OR REPLACE FUNCTION farrier.prove_agent(node text, agent_key text) RETURNS bigint
    LANGUAGE plpgsql STABLE SET search_path = farrier, pg_temp AS $$
DECLARE
    target bigint := find_node(node);
BEGIN
    PERFORM refuse_held(target);
    PERFORM check_agent_key(node, (SELECT a.key_hash FROM node_agents a WHERE a.node_id = target), agent_key);
    RETURN target;
END $$;
