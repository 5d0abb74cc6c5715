-- Records heartbeats of many agents: an array of {place, key, boot, version, health, facts, clock}. key is the digest of the
-- agent's key in hexadecimal, facts the digest of the facts that the agent has, and clock its time. Returns one row for each
-- beat, with a verdict: taken, locked (another transaction has the agent's rows; try this beat alone), unknown (no node has an
-- agent with this key), replaced (a later boot with the same key has replaced this one), held (after a restore), or refused (the
-- report is malformed, see reason). wait is the number of seconds until the next heartbeat; facts and claim say whether the
-- agent must send its facts and claim a task. Locks the agents' rows in the order of ids, and waits for no other transaction,
-- except if patient. The changes of a few agents notify the loop at once; those of many do not. An UPDATE of all beats that
-- report nothing new comes first, because nearly all are such.
CREATE OR REPLACE FUNCTION farrier.take_beats(beats jsonb, patient boolean DEFAULT false)
    RETURNS TABLE (place integer, verdict text, reason text, wait integer, facts boolean, claim boolean)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp SET lock_timeout = '2s' AS $$
DECLARE
    -- Reports with something new in one batch. An alert must not wait for the next poll. But a batch takes 50 ms of heartbeats,
    -- so ten are 200/s, and so many notifications cost the loop and PostgreSQL twice as much (decision 0004).
    few constant integer := 10;
    beat record;
    quiet boolean;
    woken bigint[];
    woken_quietly bigint[];
    restored boolean := is_restored();
    offline_after interval := (read_settings()).offline_after;
    pause integer := greatest(1, least(30, extract(epoch FROM offline_after) / 4));
BEGIN
    IF patient THEN
        PERFORM FROM node_agents a WHERE a.key_hash = ANY (ARRAY(SELECT decode(b ->> 'key', 'hex') FROM jsonb_array_elements(beats) b))
          ORDER BY a.node_id FOR NO KEY UPDATE;
        PERFORM FROM node_conditions c JOIN node_agents a ON a.node_id = c.node
          WHERE c.source = 'agent' AND a.key_hash = ANY (ARRAY(SELECT decode(b ->> 'key', 'hex') FROM jsonb_array_elements(beats) b))
          ORDER BY c.node, c.id, c.target FOR UPDATE OF c;
    END IF;
    FOR beat IN
        WITH given AS MATERIALIZED (
            SELECT g.place, g.boot, g.version, with_clock(g.health, g.clock) AS health, g.facts, a.node_id, n.live_workflow_kind, n.paused
              FROM jsonb_to_recordset(beats) AS g (place integer, key text, boot uuid, version text, health jsonb, facts text, clock double precision)
              LEFT JOIN (node_agents a JOIN nodes n ON n.id = a.node_id AND n.status <> 'deleted') ON a.key_hash = decode(g.key, 'hex')
        ), locked AS MATERIALIZED (
            SELECT a.* FROM node_agents a
             WHERE a.node_id = ANY (ARRAY(SELECT g.node_id FROM given g)) AND NOT restored
               AND NOT EXISTS (SELECT FROM restore_holds h WHERE h.kind = 'node' AND h.id = a.node_id AND h.lifted_at IS NULL)
             ORDER BY a.node_id FOR NO KEY UPDATE SKIP LOCKED
        ), judged AS MATERIALIZED (
            SELECT g.*, l.node_id AS agent, l.past_boots, l.facts_digest,
                   l.boot_id = g.boot AND l.health = g.health AND l.by_door AND l.ssh_seed_failures = 0
                   AND l.last_heartbeat_at >= farrier.now() - offline_after AND l.version IS NOT DISTINCT FROM left(g.version, 64) AS plain
              FROM given g LEFT JOIN locked l ON l.node_id = g.node_id
        ), updated AS (
            UPDATE node_agents a SET last_heartbeat_at = farrier.now()
             WHERE a.node_id = ANY (ARRAY(SELECT j.agent FROM judged j WHERE j.plain))
        )
        SELECT j.*, count(*) FILTER (WHERE NOT j.plain) OVER () > few AS among_many,
               EXISTS (SELECT FROM node_tasks t WHERE t.node_id = j.agent AND t.ended_at IS NULL AND t.status = 'queued') AS queued
          FROM judged j ORDER BY j.node_id, j.place
    LOOP
        place := beat.place;
        reason := NULL;
        wait := CASE beat.live_workflow_kind WHEN 'decommission' THEN least(pause, 5) ELSE pause END;
        facts := beat.facts IS NOT NULL AND beat.facts IS DISTINCT FROM beat.facts_digest;
        claim := beat.queued AND beat.paused IS NULL;
        IF beat.node_id IS NULL THEN
            verdict := 'unknown';
        ELSIF restored OR beat.agent IS NULL AND EXISTS (
            SELECT FROM restore_holds h WHERE h.kind = 'node' AND h.id = beat.node_id AND h.lifted_at IS NULL) THEN
            verdict := 'held';
        ELSIF beat.agent IS NULL THEN
            verdict := 'locked';
        ELSIF beat.boot = ANY (beat.past_boots) THEN
            verdict := 'replaced';
            PERFORM note_two_agents(beat.agent);
        ELSIF beat.plain THEN
            verdict := 'taken';
        ELSE
            SELECT t.verdict, t.reason, t.quiet INTO verdict, reason, quiet
              FROM take_beat(beat.agent, beat.health, beat.boot, beat.version, beat.among_many) t;
            IF quiet THEN woken_quietly := woken_quietly || beat.agent; ELSIF NOT quiet THEN woken := woken || beat.agent; END IF;
        END IF;
        RETURN NEXT;
    END LOOP;
    IF woken IS NOT NULL OR woken_quietly IS NOT NULL THEN
        INSERT INTO wakes (kind, resource, quiet)
        SELECT 'node', n, false FROM unnest(woken) n UNION ALL SELECT 'node', n, true FROM unnest(woken_quietly) n;
    END IF;
END $$;
