-- Enrolls the agent of a node: spends the bootstrap token, stores facts, enqueues the node, and returns the node's id and the key
-- for all later calls. The key is returned only here; the database keeps its digest. An agent that enrolls again gets another
-- key, and its earlier health is removed. Locks the token's row, so that only one of two concurrent calls succeeds.
-- FR400 for a malformed token or malformed facts, FR403 for a token that is unknown, used, revoked or expired, FR409 for a node that is held after a restore.
CREATE OR REPLACE FUNCTION farrier.enroll_agent(token text, facts jsonb DEFAULT '{}', OUT node bigint, OUT agent_key text)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    t record;
    fault text := json_fault(facts, 65536);
BEGIN
    PERFORM check_bootstrap_token(token);
    SELECT b.* INTO t FROM bootstrap_tokens b WHERE b.hash = digest(token) FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'unknown bootstrap token' USING ERRCODE = 'FR403', HINT = 'farrier.issue_bootstrap issues a new one.';
    ELSIF t.used_at IS NOT NULL THEN
        RAISE EXCEPTION 'this bootstrap token was used at %', t.used_at USING ERRCODE = 'FR403', HINT = 'A token works once; farrier.issue_bootstrap issues a new one.';
    ELSIF t.revoked_at IS NOT NULL THEN
        RAISE EXCEPTION 'this bootstrap token was revoked at %', t.revoked_at USING ERRCODE = 'FR403', HINT = 'farrier.issue_bootstrap issues a new one.';
    ELSIF t.expires_at <= farrier.now() THEN
        RAISE EXCEPTION 'this bootstrap token expired at %', t.expires_at USING ERRCODE = 'FR403', HINT = 'farrier.issue_bootstrap issues a new one.';
    ELSIF facts IS NULL OR jsonb_typeof(facts) <> 'object' THEN
        RAISE EXCEPTION 'facts must be a JSON object of at most 64 KiB'
            USING ERRCODE = 'FR400', HINT = 'Omit facts, or send an object such as {"kernel": "6.8"}.';
    ELSIF fault IS NOT NULL THEN
        RAISE EXCEPTION 'facts must be a JSON object of at most 64 KiB; this one %', fault
            USING ERRCODE = 'FR400', HINT = 'Send only facts that identify the system, not logs.';
    END IF;
    PERFORM refuse_held(t.node_id);
    node := t.node_id;
    agent_key := new_secret();
    UPDATE bootstrap_tokens b SET used_at = farrier.now() WHERE b.hash = t.hash;
    INSERT INTO node_agents AS a (node_id, key_hash, facts) VALUES (t.node_id, digest(agent_key), enroll_agent.facts)
        ON CONFLICT (node_id) DO UPDATE SET key_hash = excluded.key_hash, facts = excluded.facts, enrolled_at = farrier.now(),
            last_heartbeat_at = NULL, health = '{}', ssh_seed_failures = 0;
    PERFORM enqueue('node', t.node_id);
END $$;
