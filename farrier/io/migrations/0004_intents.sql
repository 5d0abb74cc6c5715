-- Intents: how anyone asks for anything. The INSERT refuses what is malformed; the handler answers the rest.

CREATE FUNCTION farrier.find_node(given text) RETURNS bigint
    LANGUAGE plpgsql STABLE SET search_path = farrier, pg_temp AS $$
DECLARE
    found_id bigint;
    found_status text;
BEGIN
    IF given ~ '^[0-9]{1,18}$' THEN
        SELECT id, status INTO found_id, found_status FROM nodes WHERE id = given::bigint;
    ELSE
        SELECT id, status INTO found_id, found_status FROM nodes WHERE name = given AND status <> 'deleted';
    END IF;
    IF found_id IS NULL THEN
        RAISE EXCEPTION 'no node is named % (a name or an id was expected)', coalesce(quote_literal(given), 'null')
            USING ERRCODE = 'FR404', HINT = 'SELECT name FROM farrier.node_inventory lists the nodes.';
    END IF;
    IF found_status = 'deleted' THEN
        RAISE EXCEPTION 'node % is deleted', given
            USING ERRCODE = 'FR404', HINT = 'Register it again: a new registration makes a new id.';
    END IF;
    RETURN found_id;
END $$;

CREATE FUNCTION farrier.setting(name text) RETURNS numeric
    LANGUAGE sql STABLE SET search_path = farrier, pg_temp
    RETURN (SELECT (s.value #>> '{}')::numeric FROM farrier.settings s WHERE s.name = $1);

-- One parameter against its rule; the text of what is wrong with it, or null.
CREATE FUNCTION farrier.param_fault(rule jsonb, value jsonb) RETURNS text
    LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF rule IS NULL THEN RETURN 'is unknown'; END IF;
    IF rule ->> 'type' = 'boolean' THEN
        RETURN CASE WHEN jsonb_typeof(value) <> 'boolean' THEN 'must be true or false' END;
    END IF;
    IF jsonb_typeof(value) <> 'string' THEN RETURN 'must be a string'; END IF;
    IF rule ? 'enum' AND NOT (rule -> 'enum') ? (value #>> '{}') THEN
        RETURN format('must be one of %s', (SELECT string_agg(e, ', ') FROM jsonb_array_elements_text(rule -> 'enum') e));
    END IF;
    IF char_length(value #>> '{}') > (rule ->> 'max')::integer THEN
        RETURN format('is longer than %s characters', rule ->> 'max');
    END IF;
    IF rule ? 'pattern' AND (value #>> '{}') !~ (rule ->> 'pattern') THEN
        RETURN 'is blank or has blanks in it';
    END IF;
    RETURN NULL;
END $$;

-- All parameters of an action; what is wrong with them, or null.
CREATE FUNCTION farrier.params_fault(spec jsonb, params jsonb) RETURNS text
    LANGUAGE plpgsql IMMUTABLE SET search_path = farrier, pg_temp AS $$
DECLARE
    field text;
    other text;
    fault text;
BEGIN
    IF jsonb_typeof(params) <> 'object' THEN RETURN 'params must be a JSON object'; END IF;
    FOR field IN SELECT jsonb_object_keys(params) LOOP
        fault := param_fault(spec -> 'fields' -> field, params -> field);
        IF fault IS NOT NULL THEN
            RETURN format('parameter %s %s; it takes: %s', field, fault,
                coalesce((SELECT string_agg(k, ', ') FROM jsonb_object_keys(spec -> 'fields') k), 'none'));
        END IF;
    END LOOP;
    FOR field IN SELECT k FROM jsonb_object_keys(spec -> 'fields') k
                  WHERE (spec #> ARRAY['fields', k, 'required']) = 'true'::jsonb AND NOT params ? k LOOP
        RETURN format('parameter %s is missing', field);
    END LOOP;
    IF jsonb_array_length(spec -> 'any_of') > 0
       AND NOT params ?| ARRAY(SELECT jsonb_array_elements_text(spec -> 'any_of')) THEN
        RETURN format('needs at least one of: %s', (SELECT string_agg(e, ', ') FROM jsonb_array_elements_text(spec -> 'any_of') e));
    END IF;
    FOR field, other IN SELECT key, value FROM jsonb_each_text(spec -> 'needs') LOOP
        IF params -> field = 'true'::jsonb AND NOT params ? other THEN
            RETURN format('%s: true needs a %s', field, other);
        END IF;
    END LOOP;
    RETURN NULL;
END $$;

CREATE FUNCTION farrier.validate_intent() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    spec record;
    fault text;
    asked integer := coalesce(NEW.api_version, setting('api_min'));
    first_id bigint;
BEGIN
    IF asked < setting('api_min') OR asked > setting('api_max') THEN
        RAISE EXCEPTION 'api_version % is not supported; this database takes % to %', asked, setting('api_min'), setting('api_max')
            USING ERRCODE = 'FR406', HINT = 'farrier.api_version() tells the range.';
    END IF;
    SELECT a.since, a.params INTO spec FROM actions a WHERE a.action = NEW.action;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'unknown action %', coalesce(quote_literal(NEW.action), 'null')
            USING ERRCODE = 'FR400', HINT = (SELECT 'Known: ' || string_agg(a.action, ', ' ORDER BY a.action) FROM actions a);
    END IF;
    IF spec.since > asked THEN
        RAISE EXCEPTION 'action % needs api_version % or later; this intent has %', NEW.action, spec.since, asked
            USING ERRCODE = 'FR406', HINT = 'An intent without api_version gets the oldest supported one.';
    END IF;
    IF octet_length(NEW.params::text) > 16384 THEN
        RAISE EXCEPTION 'params are % bytes; 16384 is the most', octet_length(NEW.params::text) USING ERRCODE = 'FR400';
    END IF;
    fault := CASE WHEN NEW.params IS NULL THEN 'params must be a JSON object' ELSE params_fault(spec.params, NEW.params) END;
    IF fault IS NOT NULL THEN
        RAISE EXCEPTION '%: %', NEW.action, fault USING ERRCODE = 'FR400';
    END IF;
    NEW.node_id := find_node(NEW.node);
    NEW.status := 'pending';
    NEW.reason := NULL;
    NEW.answered_at := NULL;
    NEW.created_at := farrier.now();
    IF NEW.idempotency_key IS NOT NULL THEN
        SELECT i.id INTO first_id FROM intents i WHERE i.node_id = NEW.node_id AND i.idempotency_key = NEW.idempotency_key;
        IF FOUND THEN
            RAISE EXCEPTION 'node % already has an intent with idempotency key %: intent %', NEW.node, quote_literal(NEW.idempotency_key), first_id
                USING ERRCODE = 'unique_violation', CONSTRAINT = 'intents_key',
                      HINT = 'farrier.intent() returns the first intent instead of failing.';
        END IF;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER validate BEFORE INSERT ON farrier.intents FOR EACH ROW EXECUTE FUNCTION farrier.validate_intent();

CREATE FUNCTION farrier.wake_for_intents() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    INSERT INTO wake_requests (kind, id) SELECT DISTINCT 'node', node_id FROM new_rows;
    RETURN NULL;
END $$;
CREATE TRIGGER wake AFTER INSERT ON farrier.intents
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION farrier.wake_for_intents();

-- An intent as one call: the id of the new intent, or of the first with this key. The same key with other content is
-- an error.
CREATE FUNCTION farrier.intent(node text, action text, params jsonb DEFAULT '{}', idempotency_key text DEFAULT NULL,
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
    RAISE EXCEPTION 'idempotency key % belongs to intent %, which asks for % %', quote_literal(intent.idempotency_key), first.id, first.action, first.params
        USING ERRCODE = 'FR400', HINT = 'One key is one request; take a new key for a new one.';
END $$;

CREATE FUNCTION farrier.api_version(OUT api_min integer, OUT api_max integer)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp
    RETURN (farrier.setting('api_min')::integer, farrier.setting('api_max')::integer);
