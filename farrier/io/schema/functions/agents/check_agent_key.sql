-- Refuses an agent whose key does not match (FR403). `known` is the digest of the agent's key; null for a node without an agent.
CREATE OR REPLACE FUNCTION farrier.check_agent_key(node text, known bytea, agent_key text) RETURNS void
    LANGUAGE plpgsql IMMUTABLE SET search_path = farrier, pg_temp AS $$
BEGIN
    IF known IS NULL THEN
        RAISE EXCEPTION 'node % has no enrolled agent', node USING ERRCODE = 'FR403', HINT = 'Call farrier.enroll_agent first.';
    ELSIF known IS DISTINCT FROM digest(agent_key) THEN
        RAISE EXCEPTION 'wrong agent key for node %', node USING ERRCODE = 'FR403', HINT = 'The agent must enrol again with a new bootstrap token.';
    END IF;
END $$;
