-- Records a heartbeat with one UPDATE of one row, and the node's conditions if the report changed. `was` is the agent's row,
-- which the caller has locked; `boot` is null for an agent that called heartbeat itself. The caller enqueues the node only
-- for a report that may change a decision: the first report, a report with another health, except if only the messages of its alerts
-- differ, a report after a silence longer than offline_after, and each of the first ssh_seed_limit consecutive reports of a failed SSH
-- seed, because the handler counts these. For such a report, returns whether the wake is quiet; otherwise null. A wake notifies the
-- loop at once only if an agent that is heard reports a change, and not if among_many: after a power cut, thousands of agents report for
-- the first time or after a silence, and the next poll finds them together. FR400 for a report that is nested too deeply. Called by
-- heartbeat and take_beat.
CREATE OR REPLACE FUNCTION farrier.record_beat(was farrier.node_agents, health jsonb, boot uuid DEFAULT NULL, version text DEFAULT NULL,
    among_many boolean DEFAULT false) RETURNS boolean
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
DECLARE
    changed boolean := was.health IS DISTINCT FROM health;
    turns boolean := was.health - 'alerts' IS DISTINCT FROM health - 'alerts';
    heard boolean := (was.last_heartbeat_at >= farrier.now() - (read_settings()).offline_after) IS TRUE;
    fault text;
BEGIN
    -- The stored report passed this check before, so a report that equals it needs no second check.
    IF changed THEN
        fault := json_fault(health, 65536);
        IF fault IS NOT NULL THEN RAISE EXCEPTION 'health %', fault USING ERRCODE = 'FR400'; END IF;
    END IF;
    UPDATE node_agents a
       SET last_heartbeat_at = farrier.now(), by_door = boot IS NOT NULL, health = record_beat.health,
           version = coalesce(left(record_beat.version, 64), a.version), boot_id = coalesce(boot, a.boot_id),
           past_boots = CASE WHEN boot <> a.boot_id THEN (a.boot_id || a.past_boots)[:8] ELSE a.past_boots END,
           ssh_seed_failures = CASE record_beat.health ->> 'ssh_seed' WHEN 'failed' THEN a.ssh_seed_failures + 1 ELSE 0 END
     WHERE a.node_id = was.node_id;
    -- The first heartbeat of nearly every machine changes the report, and states no condition.
    IF changed AND (was.condition <> 'ok' OR health -> 'ok' = 'false' OR jsonb_array_length(coalesce(health -> 'alerts', '[]')) > 0) THEN
        turns := note_health(was.node_id, health) OR turns;
    END IF;
    IF turns OR NOT heard OR (health ->> 'ssh_seed' = 'failed' AND was.ssh_seed_failures < (read_constants()).ssh_seed_limit) THEN
        RETURN among_many OR NOT heard;
    END IF;
    RETURN NULL;
END $$;
