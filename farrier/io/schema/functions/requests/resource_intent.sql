-- Inserts an intent for a resource of any kind and returns its id; farrier.intent inserts the intents of nodes, and only these store
-- an api_version. May be repeated with an idempotency key, also after the resource has ended: the same call returns the id of the
-- first intent. FR400 for a key that belongs to an intent with another action or other params, FR406 for a version of the API that
-- this database does not support; all other errors are those of the INSERT.
CREATE OR REPLACE FUNCTION farrier.resource_intent(kind text, resource text, action text, params jsonb DEFAULT '{}',
                                        idempotency_key text DEFAULT NULL, requested_by text DEFAULT NULL,
                                        api_version integer DEFAULT NULL) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    new_id bigint;
    violated text;
BEGIN
    IF NOT (kind_of(resource_intent.kind)).from_template THEN
        RETURN intent(resource_intent.resource, resource_intent.action, resource_intent.params, resource_intent.idempotency_key,
                      resource_intent.requested_by, resource_intent.api_version);
    END IF;
    PERFORM refuse_version(resource_intent.api_version);
    BEGIN
        INSERT INTO resource_intents (kind, resource, action, params, idempotency_key, requested_by)
        VALUES (resource_intent.kind, resource_intent.resource, resource_intent.action, resource_intent.params,
                resource_intent.idempotency_key, coalesce(resource_intent.requested_by, session_user))
        RETURNING id INTO new_id;
    EXCEPTION WHEN OTHERS THEN
        GET STACKED DIAGNOSTICS violated = CONSTRAINT_NAME;
        new_id := first_intent(resource_intent.kind, resource_intent.resource, resource_intent.action, resource_intent.params,
                               resource_intent.idempotency_key, violated);
        IF new_id IS NULL THEN RAISE; END IF;
    END;
    RETURN new_id;
END $$;
