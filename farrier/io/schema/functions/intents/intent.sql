-- Inserts an intent for a node and returns its id. May be repeated with an idempotency key: the same call returns the id of the
-- first intent. FR400 for a key that belongs to an intent with another action or other params; all other errors are
-- those of the INSERT.
CREATE OR REPLACE FUNCTION farrier.intent(node text, action text, params jsonb DEFAULT '{}', idempotency_key text DEFAULT NULL,
                               requested_by text DEFAULT NULL, api_version integer DEFAULT NULL) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    new_id bigint;
    first record;
BEGIN
    INSERT INTO intents (node, action, params, idempotency_key, requested_by, api_version)
    VALUES (intent.node, intent.action, intent.params, intent.idempotency_key, intent.requested_by, intent.api_version)
    RETURNING id INTO new_id;
    RETURN new_id;
EXCEPTION WHEN unique_violation THEN
    SELECT i.id, i.action, i.params INTO first FROM intents i
     WHERE i.node_id = find_node(intent.node) AND i.idempotency_key = intent.idempotency_key;
    IF first.action = intent.action AND first.params = intent.params THEN
        RETURN first.id;
    END IF;
    RAISE EXCEPTION 'idempotency key % belongs to intent %, which requests % %', quote_literal(intent.idempotency_key), first.id, first.action, first.params
        USING ERRCODE = 'FR400', HINT = 'A key identifies one intent; use a new key for another.';
END $$;
