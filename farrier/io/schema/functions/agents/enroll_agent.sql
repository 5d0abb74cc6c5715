-- Enrolls the agent of a node: spends the bootstrap token, stores facts, enqueues the node, and returns the node's id and the key
-- for all later calls. The key is returned only here; the database keeps its digest. If the agent brings key_digest, the
-- SHA-256 digest of its own key in hexadecimal, no key is returned, and the same token with the same digest succeeds
-- again: a lost reply costs no token. If the facts serial and uuid show another machine than the node's BMC, the agent is
-- refused: node and key are null, refused is the reason, the token stays valid, and the node gets the note
-- identity/enrolment. This is no error, because an error would also undo the note. An agent that enrolls again gets
-- another key, and its earlier health is removed. Locks the token's row, so that only one of two concurrent calls
-- succeeds. FR400 for a malformed token, digest or facts, FR403 for a token that is unknown, used, revoked or expired.
CREATE OR REPLACE FUNCTION farrier.enroll_agent(token text, facts jsonb DEFAULT '{}', key_digest text DEFAULT NULL,
    OUT node bigint, OUT agent_key text, OUT refused text)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
#variable_conflict use_column
DECLARE
    t record;
    fault text := json_fault(facts, 65536);
BEGIN
    PERFORM check_bootstrap_token(token);
    IF key_digest !~ '^[0-9a-f]{64}$' THEN
        RAISE EXCEPTION 'key_digest must be a SHA-256 digest of 64 lower-case hexadecimal digits, got % characters', char_length(key_digest)
            USING ERRCODE = 'FR400', HINT = 'Send the digest of a random key, not the key.';
    END IF;
    SELECT b.* INTO t FROM bootstrap_tokens b WHERE b.hash = digest(token) FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'unknown bootstrap token' USING ERRCODE = 'FR403', HINT = 'farrier.issue_bootstrap issues a new one.';
    ELSIF t.used_at IS NOT NULL AND EXISTS (
        SELECT FROM node_agents a WHERE a.node_id = t.node_id AND a.key_hash = decode(key_digest, 'hex')) THEN
        node := t.node_id;
        RETURN;
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
    refused := other_machine(t.node_id, facts);
    IF refused IS NOT NULL THEN
        INSERT INTO node_conditions AS c (node, source, id, message, effect) VALUES (t.node_id, 'identity', 'enrolment', refused, 'note')
            ON CONFLICT (node, source, id, target) DO UPDATE SET message = excluded.message, seen_at = farrier.now();
        PERFORM enqueue('node', t.node_id);
        RETURN;
    END IF;
    node := t.node_id;
    IF key_digest IS NULL THEN agent_key := new_secret(); END IF;
    DELETE FROM node_conditions c
     WHERE c.node = t.node_id AND (c.source = 'agent' OR (c.source, c.id) = ('identity', 'enrolment'));
    UPDATE bootstrap_tokens b SET used_at = farrier.now() WHERE b.hash = t.hash;
    INSERT INTO node_agents AS a (node_id, key_hash, facts) VALUES (t.node_id, coalesce(decode(key_digest, 'hex'), digest(agent_key)), enroll_agent.facts)
        ON CONFLICT (node_id) DO UPDATE SET key_hash = excluded.key_hash, facts = excluded.facts, enrolled_at = farrier.now(),
            last_heartbeat_at = NULL, health = '{}', ssh_seed_failures = 0;
    PERFORM enqueue('node', t.node_id);
END $$;
