-- Inserts an intent for a node and returns its id. May be repeated with an idempotency key, also after the node was deleted: the same
-- call returns the id of the first intent. FR400 for a key that belongs to an intent with another action or other params; all other
-- errors are those of the INSERT.
CREATE OR REPLACE FUNCTION farrier.intent(node text, action text, params jsonb DEFAULT '{}', idempotency_key text DEFAULT NULL,
                               requested_by text DEFAULT NULL, api_version integer DEFAULT NULL) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    new_id bigint;
    violated text;
BEGIN
    INSERT INTO intents (node, action, params, idempotency_key, requested_by, api_version)
    VALUES (intent.node, intent.action, intent.params, intent.idempotency_key, coalesce(intent.requested_by, session_user),
            intent.api_version)
    RETURNING id INTO new_id;
    RETURN new_id;
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS violated = CONSTRAINT_NAME;
    new_id := first_intent('node', intent.node, intent.action, intent.params, intent.idempotency_key, violated);
    IF new_id IS NULL THEN RAISE; END IF;
    RETURN new_id;
END $$;
