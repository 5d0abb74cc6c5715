-- Records a heartbeat of a node's agent. `health` is {"ok", "alerts": [{"id", "target", "message", "blocks_scheduling"}], "ssh_seed"};
-- each pair of id and target is a condition of the node. Enqueues the node only if the report changes something. FR400 for a malformed
-- report, FR403 for a wrong key, FR404 for an unknown node, FR409 for a node that is held after a restore.
CREATE OR REPLACE FUNCTION farrier.heartbeat(node text, health jsonb, agent_key text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    target bigint := find_node(node);
    fault text := health_fault(health);
    was node_agents;
    quiet boolean;
BEGIN
    IF fault IS NOT NULL THEN RAISE EXCEPTION '%', fault USING ERRCODE = 'FR400'; END IF;
    SELECT a.* INTO was FROM node_agents a WHERE a.node_id = target FOR NO KEY UPDATE;
    PERFORM refuse_held(target);
    PERFORM check_agent_key(node, was.key_hash, agent_key);
    quiet := record_beat(was, health);
    INSERT INTO wakes (kind, resource, quiet) SELECT 'node', target, quiet WHERE quiet IS NOT NULL;
END $$;
