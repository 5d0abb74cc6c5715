-- Enrolls an agent as enroll_agent does, without the wake: enroll_agents inserts those of a whole batch at once, and asks once whether
-- the database was restored. `spent` tells whether this call spent the token; only then the caller enqueues the node.
CREATE OR REPLACE FUNCTION farrier.enroll(token text, facts jsonb, key_digest text, version text, boot_id uuid, restored boolean,
    OUT node bigint, OUT agent_key text, OUT refused text, OUT node_name text, OUT spent boolean)
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
#variable_conflict use_column
DECLARE
    t record;
    hashed bytea;
    known jsonb;
BEGIN
    PERFORM check_bootstrap_token(token);
    IF key_digest !~ '^[0-9a-f]{64}$' THEN
        RAISE EXCEPTION 'key_digest must be a SHA-256 digest of 64 lower-case hexadecimal digits, got % characters', char_length(key_digest)
            USING ERRCODE = 'FR400', HINT = 'Send the digest of a random key, not the key.';
    END IF;
    hashed := decode(key_digest, 'hex');
    SELECT b.* INTO t FROM bootstrap_tokens b WHERE b.hash = digest(token) FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'unknown bootstrap token' USING ERRCODE = 'FR403', HINT = 'farrier.issue_bootstrap issues a new one.';
    ELSIF t.used_at IS NOT NULL AND EXISTS (
        SELECT FROM node_agents a WHERE a.node_id = t.node_id AND a.key_hash = hashed) THEN
        SELECT n.id, n.name INTO node, node_name FROM nodes n WHERE n.id = t.node_id;
        RETURN;
    ELSIF t.used_at IS NOT NULL THEN
        RAISE EXCEPTION 'this bootstrap token was used at %', t.used_at USING ERRCODE = 'FR403', HINT = 'A token works once; farrier.issue_bootstrap issues a new one.';
    ELSIF t.revoked_at IS NOT NULL THEN
        RAISE EXCEPTION 'this bootstrap token was revoked at %', t.revoked_at USING ERRCODE = 'FR403', HINT = 'farrier.issue_bootstrap issues a new one.';
    ELSIF t.expires_at <= farrier.now() THEN
        RAISE EXCEPTION 'this bootstrap token expired at %', t.expires_at USING ERRCODE = 'FR403', HINT = 'farrier.issue_bootstrap issues a new one.';
    ELSIF EXISTS (SELECT FROM node_agents a WHERE a.key_hash = hashed AND a.node_id <> t.node_id) THEN
        RAISE EXCEPTION 'the agent of another node has this key' USING ERRCODE = 'FR409', HINT = 'Make a new random key; a copied disk has the key of the first machine.';
    END IF;
    PERFORM check_facts(facts);
    PERFORM refuse_held(t.node_id, restored);
    known := identities_of_agent(facts);
    refused := refuse_machine(t.node_id, known);
    IF refused IS NOT NULL THEN RETURN; END IF;
    SELECT n.id, n.name INTO node, node_name FROM nodes n WHERE n.id = t.node_id;
    IF key_digest IS NULL THEN
        agent_key := new_secret();
        hashed := digest(agent_key);
    END IF;
    DELETE FROM node_conditions c
     WHERE c.node = t.node_id AND (c.source = 'agent' OR (c.source, c.id) IN (('identity', 'enrolment'), ('identity', 'agent')));
    UPDATE bootstrap_tokens b SET used_at = farrier.now() WHERE b.hash = t.hash;
    spent := true;
    INSERT INTO node_agents AS a (node_id, key_hash, facts, identities, version, boot_id)
    VALUES (t.node_id, hashed, enroll.facts, known, left(enroll.version, 64), enroll.boot_id)
        ON CONFLICT (node_id) DO UPDATE SET key_hash = excluded.key_hash, facts = excluded.facts, identities = excluded.identities, facts_digest = NULL, enrolled_at = farrier.now(),
            last_heartbeat_at = NULL, by_door = false, version = excluded.version, boot_id = excluded.boot_id, past_boots = '{}',
            health = '{}', ssh_seed_failures = 0;
END $$;
