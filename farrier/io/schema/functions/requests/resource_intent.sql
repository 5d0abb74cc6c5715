-- Inserts an intent for a resource of any kind and returns its id; farrier.intent inserts the intents of nodes, and only these have
-- an api_version. May be repeated with an idempotency key: the same call returns the id of the first intent. FR400 for a key that
-- belongs to an intent with another action or other params; all other errors are those of the INSERT.
CREATE OR REPLACE FUNCTION farrier.resource_intent(kind text, resource text, action text, params jsonb DEFAULT '{}',
                                        idempotency_key text DEFAULT NULL, requested_by text DEFAULT NULL,
                                        api_version integer DEFAULT NULL) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    new_id bigint;
    first record;
BEGIN
    IF NOT (kind_of(resource_intent.kind)).from_template THEN
        RETURN intent(resource_intent.resource, resource_intent.action, resource_intent.params, resource_intent.idempotency_key,
                      resource_intent.requested_by, resource_intent.api_version);
    END IF;
    BEGIN
        INSERT INTO resource_intents (kind, resource, action, params, idempotency_key, requested_by)
        VALUES (resource_intent.kind, resource_intent.resource, resource_intent.action, resource_intent.params,
                resource_intent.idempotency_key, resource_intent.requested_by)
        RETURNING id INTO new_id;
        RETURN new_id;
    EXCEPTION WHEN OTHERS THEN
        -- A concurrent call with the same key may have taken the name, number or prefixes, and may have committed while
        -- this call waited for them. This call then returns the id of that intent, whichever error it got.
        SELECT i.id, i.action, i.params INTO first FROM resource_intents i
         WHERE resource_intent.idempotency_key IS NOT NULL
           AND i.id = resource_intent_by_key(resource_intent.kind, resource_intent.resource, resource_intent.action,
                                             resource_intent.idempotency_key);
        IF NOT FOUND THEN RAISE; END IF;
        IF first.action = resource_intent.action AND first.params = resource_intent.params THEN
            RETURN first.id;
        END IF;
        RAISE EXCEPTION 'idempotency key % belongs to intent %, which requests % %', quote_literal(resource_intent.idempotency_key),
            first.id, first.action, first.params
            USING ERRCODE = 'FR400', HINT = 'A key identifies one intent; use a new key for another.';
    END;
END $$;
