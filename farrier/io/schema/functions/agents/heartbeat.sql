-- Records a heartbeat of a node's agent with one UPDATE of one row, and the node's conditions if the report changed. Enqueues the node only for a report that may change
-- a decision: the first report, a report with another health, a report after a silence longer than offline_after, and
-- each of the first ssh_seed_limit consecutive reports of a failed SSH seed, because the handler counts these. FR400
-- for a malformed report, FR403 for a wrong key, FR404 for an unknown node, FR409 for a node that is held after a restore.
CREATE OR REPLACE FUNCTION farrier.heartbeat(node text, health jsonb, agent_key text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    target bigint := find_node(node);
    fault text := health_fault(health);
    was record;
    changed boolean;
BEGIN
    IF fault IS NOT NULL THEN RAISE EXCEPTION '%', fault USING ERRCODE = 'FR400'; END IF;
    SELECT a.last_heartbeat_at, a.health, a.key_hash, a.ssh_seed_failures INTO was FROM node_agents a WHERE a.node_id = target FOR UPDATE;
    PERFORM refuse_held(target);
    PERFORM check_agent_key(node, was.key_hash, agent_key);
    -- The stored report passed this check before, so a report that equals it needs no second check.
    changed := was.health IS DISTINCT FROM health;
    IF changed THEN
        fault := json_fault(health, 65536);
        IF fault IS NOT NULL THEN RAISE EXCEPTION 'health %', fault USING ERRCODE = 'FR400'; END IF;
    END IF;
    UPDATE node_agents a
       SET last_heartbeat_at = farrier.now(), health = heartbeat.health,
           ssh_seed_failures = CASE heartbeat.health ->> 'ssh_seed' WHEN 'failed' THEN a.ssh_seed_failures + 1 ELSE 0 END
     WHERE a.node_id = target;
    IF changed THEN PERFORM note_health(target, was.health, health); END IF;
    IF was.last_heartbeat_at IS NULL OR changed
       OR (health ->> 'ssh_seed' = 'failed' AND was.ssh_seed_failures < (read_constants()).ssh_seed_limit)
       OR was.last_heartbeat_at < farrier.now() - (read_settings()).offline_after THEN
        PERFORM enqueue('node', target);
    END IF;
END $$;
