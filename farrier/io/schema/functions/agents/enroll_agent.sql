-- Enrolls the agent of a node: spends the bootstrap token, stores facts, enqueues the node, and returns the node's id,
-- the key for all later calls, and the node's name. The key is returned only here; the database keeps its digest. If the
-- agent brings key_digest, the SHA-256 digest of its own key in hexadecimal, no key is returned, and the same token with
-- the same digest succeeds again: a lost reply costs no token. If the facts serial and uuid show another machine than the
-- node's BMC or its machine in MAAS, the agent is refused: node and key are null, refused is the reason, the token stays
-- valid, and the node gets a note. An agent that enrolls again gets another key, and its earlier health is removed. Locks the
-- token's row, so that only one of two concurrent calls succeeds. FR400 for a malformed token, digest or facts, FR403 for a
-- token that is unknown, used, revoked or expired, FR409 for a key that another node has.
CREATE OR REPLACE FUNCTION farrier.enroll_agent(token text, facts jsonb DEFAULT '{}', key_digest text DEFAULT NULL,
    OUT node bigint, OUT agent_key text, OUT refused text, version text DEFAULT NULL, boot_id uuid DEFAULT NULL, OUT node_name text)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    spent boolean;
BEGIN
    SELECT e.node, e.agent_key, e.refused, e.node_name, e.spent INTO node, agent_key, refused, node_name, spent
      FROM enroll(token, facts, key_digest, version, boot_id, is_restored()) e;
    INSERT INTO wakes (kind, resource, quiet) SELECT 'node', node, true WHERE spent;
END $$;
