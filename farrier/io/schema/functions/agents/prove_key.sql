-- Returns the id of the node whose agent has the key with this digest. FR403 for an unknown key, FR409 for a node that is held
-- after a restore. Called by the functions of servers for agents.
CREATE OR REPLACE FUNCTION farrier.prove_key(key bytea) RETURNS bigint
    LANGUAGE plpgsql STABLE SET search_path = farrier, pg_temp AS $$
DECLARE
    target bigint := (SELECT a.node_id FROM node_agents a WHERE a.key_hash = key);
BEGIN
    IF target IS NULL THEN
        RAISE EXCEPTION 'no node has an agent with this key: the node was deleted, or another agent has enrolled' USING ERRCODE = 'FR403',
            HINT = 'Stop, or enrol again with a new bootstrap token.';
    END IF;
    PERFORM refuse_held(target);
    RETURN target;
END $$;
