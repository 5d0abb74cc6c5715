-- Stores the facts that an agent reports, with the digest that the agent computed of them. Returns null, or why the facts are
-- refused: they come from another machine (refuse_machine). Enqueues the node if its agent now reports another serial number or
-- UUID. May be repeated. FR400 for malformed facts, FR403 for an unknown key, FR409 for a node that is held after a restore.
CREATE OR REPLACE FUNCTION farrier.put_facts(key bytea, digest text, facts jsonb) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp SET lock_timeout = '2s' AS $$
DECLARE
    target bigint := prove_key(key);
    known jsonb;
    refused text;
    turns   boolean;
BEGIN
    PERFORM check_facts(facts);
    IF digest !~ '^[0-9a-f]{64}$' IS NOT FALSE THEN
        RAISE EXCEPTION 'the digest of facts must be 64 lower-case hexadecimal digits, got % characters', coalesce(char_length(digest), 0)
            USING ERRCODE = 'FR400', HINT = 'Send the SHA-256 digest of the facts.';
    END IF;
    known := identities_of_agent(facts);
    refused := refuse_machine(target, known);
    IF refused IS NULL THEN
        UPDATE node_agents a SET facts = put_facts.facts, identities = known, facts_digest = put_facts.digest
          FROM (SELECT w.identities FROM node_agents w WHERE w.node_id = target FOR NO KEY UPDATE) was
         WHERE a.node_id = target RETURNING a.identities <> was.identities INTO turns;
        IF turns THEN PERFORM enqueue('node', target); END IF;
    END IF;
    RETURN refused;
END $$;
