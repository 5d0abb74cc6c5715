-- Refuses an intent that is invalid in every state, creates the resource that action `create` requests, and sets the columns that
-- clients do not set. FR400 for an unknown kind, an unknown action or malformed parameters, FR404 for an unknown resource,
-- unique_violation for an idempotency key that is in use. BEFORE INSERT trigger on resource_intents.
CREATE OR REPLACE FUNCTION farrier.validate_resource_intent() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    spec jsonb;
    fault text;
BEGIN
    PERFORM relation_of(NEW.kind);
    SELECT a.params INTO spec FROM kind_actions a WHERE a.kind = NEW.kind AND a.action = NEW.action;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'unknown action % of kind %', coalesce(quote_literal(NEW.action), 'null'), NEW.kind
            USING ERRCODE = 'FR400',
                  HINT = (SELECT 'Known: ' || string_agg(a.action, ', ' ORDER BY a.action) FROM kind_actions a WHERE a.kind = NEW.kind);
    END IF;
    IF octet_length(NEW.params::text) > 16384 THEN
        RAISE EXCEPTION 'params have % bytes; at most 16384 are allowed', octet_length(NEW.params::text) USING ERRCODE = 'FR400';
    END IF;
    fault := CASE WHEN NEW.params IS NULL THEN 'params must be a JSON object' ELSE params_fault(spec, NEW.params) END;
    IF fault IS NOT NULL THEN
        RAISE EXCEPTION '%: %', NEW.action, fault USING ERRCODE = 'FR400';
    END IF;
    IF NEW.resource IS NULL THEN
        RAISE EXCEPTION '%: `resource` is missing', NEW.action USING ERRCODE = 'FR400';
    END IF;
    IF char_length(NEW.idempotency_key) NOT BETWEEN 1 AND 255 OR char_length(NEW.requested_by) NOT BETWEEN 1 AND 255 THEN
        RAISE EXCEPTION '% must have 1 to 255 characters, or be null',
            CASE WHEN char_length(NEW.idempotency_key) NOT BETWEEN 1 AND 255 THEN 'idempotency_key' ELSE 'requested_by' END
            USING ERRCODE = 'FR400';
    END IF;
    NEW.created_at := farrier.now();
    IF NEW.idempotency_key IS NOT NULL THEN
        PERFORM refuse_repeated(NEW.kind, NEW.resource, NEW.action, NEW.idempotency_key);
    END IF;
    IF NEW.action = 'create' THEN
        -- Trigger function enqueue_resource copies these settings to the first row of the resource's history.
        PERFORM set_config('farrier.created_for', NEW.id::text, true), set_config('farrier.created_by', coalesce(NEW.requested_by, ''), true);
        NEW.resource_id := create_resource(NEW.kind, NEW.resource, NEW.params);
        PERFORM set_config('farrier.created_for', '', true), set_config('farrier.created_by', '', true);
    ELSE
        NEW.resource_id := find_resource(NEW.kind, NEW.resource);
    END IF;
    NEW.status := CASE NEW.action WHEN 'create' THEN 'accepted' ELSE 'pending' END;
    NEW.reason := NULL;
    NEW.answered_at := CASE NEW.action WHEN 'create' THEN farrier.now() END;
    RETURN NEW;
END $$;
