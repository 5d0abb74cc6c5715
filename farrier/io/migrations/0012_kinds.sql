-- Kinds of resources besides nodes: which there are, and how anybody asks something of a resource. A kind is a table like
-- farrier.resources, made known by farrier.make_kind; its states, edges and actions are filled from its KindSpec.

CREATE TABLE farrier.kinds (
    kind        text     PRIMARY KEY CHECK (kind ~ '^[a-z][a-z0-9_]{0,39}$'),
    relation    regclass NOT NULL UNIQUE,
    fingerprint text   -- of the spec that its states, edges and actions are from
);
CREATE TABLE farrier.kind_states (
    kind     text     NOT NULL,
    state    text     NOT NULL,
    initial  boolean  NOT NULL,
    terminal boolean  NOT NULL,
    sla      interval,
    why_none text     NOT NULL,
    PRIMARY KEY (kind, state)
);
CREATE TABLE farrier.kind_actions (
    kind        text    NOT NULL,
    action      text    NOT NULL,
    description text    NOT NULL,
    params      jsonb   NOT NULL,
    interrupts  boolean NOT NULL,
    PRIMARY KEY (kind, action)
);

-- What every kind's table begins with; holds no rows. Ended resources keep theirs, and their name is free again.
CREATE TABLE farrier.resources (
    id               bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name             text        NOT NULL CHECK (name ~ '^[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?$' AND name !~ '^[0-9]+$'),
    site             text,
    version          bigint      NOT NULL DEFAULT 1,
    state            text        NOT NULL,   -- the kind's first, unless it is given
    state_entered_at timestamptz NOT NULL DEFAULT farrier.now(),
    created_at       timestamptz NOT NULL DEFAULT farrier.now(),
    ended_at         timestamptz,            -- when it entered a terminal state
    last_error       text
) WITH (fillfactor = 80);
-- By which metrics count, however many there are; copied with the table.
CREATE INDEX resources_by_state ON farrier.resources (state, state_entered_at) WHERE ended_at IS NULL;
CREATE FUNCTION farrier.refuse_template_row() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'farrier.resources is what tables of kinds are made like; it holds no rows' USING ERRCODE = 'FR409';
END $$;
CREATE TRIGGER holds_no_rows BEFORE INSERT ON farrier.resources
    FOR EACH ROW EXECUTE FUNCTION farrier.refuse_template_row();

-- Requests for resources. The INSERT refuses what is malformed, and makes what is to be created; the kind's handler
-- answers the rest.
CREATE TABLE farrier.resource_intents (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind            text        NOT NULL,
    resource        text        NOT NULL,        -- name or id, as it was given
    resource_id     bigint      NOT NULL,
    action          text        NOT NULL,
    params          jsonb       NOT NULL DEFAULT '{}',
    idempotency_key text,
    requested_by    text,
    status          text        NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'accepted', 'rejected', 'superseded')),
    reason          text,
    created_at      timestamptz NOT NULL DEFAULT farrier.now(),
    answered_at     timestamptz,
    CONSTRAINT resource_intent_size CHECK (octet_length(params::text) <= 16384)
);
CREATE UNIQUE INDEX resource_intents_key ON farrier.resource_intents (kind, resource_id, idempotency_key)
    WHERE idempotency_key IS NOT NULL;
-- Before it is made, a resource has no id: a name's creations are told apart by their keys.
CREATE UNIQUE INDEX resource_intents_create_key ON farrier.resource_intents (kind, resource, idempotency_key)
    WHERE idempotency_key IS NOT NULL AND action = 'create';
-- What a call is found by that comes again when its resource has ended.
CREATE INDEX resource_intents_asked ON farrier.resource_intents (kind, resource, idempotency_key, action, id)
    WHERE idempotency_key IS NOT NULL;
CREATE INDEX resource_intents_pending ON farrier.resource_intents (kind, resource_id, id) WHERE status = 'pending';
CREATE INDEX resource_intents_resource ON farrier.resource_intents (kind, resource_id, id);

-- One parameter against its rule; the text of what is wrong with it, or null.
CREATE OR REPLACE FUNCTION farrier.param_fault(rule jsonb, value jsonb) RETURNS text
    LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    given text := value #>> '{}';
BEGIN
    IF rule IS NULL THEN RETURN 'is unknown'; END IF;
    IF rule ->> 'type' = 'boolean' THEN
        RETURN CASE WHEN jsonb_typeof(value) <> 'boolean' THEN 'must be true or false' END;
    END IF;
    IF rule ->> 'type' = 'integer' THEN
        IF jsonb_typeof(value) <> 'number' OR given !~ '^-?[0-9]+$' THEN RETURN 'must be a whole number'; END IF;
        -- No column takes more than 64 bits.
        IF given::numeric < coalesce((rule ->> 'min')::numeric, -9223372036854775808) THEN
            RETURN format('must be %s or more', coalesce(rule ->> 'min', '-9223372036854775808'));
        END IF;
        IF given::numeric > coalesce((rule ->> 'max')::numeric, 9223372036854775807) THEN
            RETURN format('must be %s or less', coalesce(rule ->> 'max', '9223372036854775807'));
        END IF;
        RETURN NULL;
    END IF;
    IF rule ->> 'type' = 'array' THEN
        IF jsonb_typeof(value) <> 'array' THEN RETURN 'must be an array'; END IF;
        IF jsonb_array_length(value) > (rule ->> 'max')::integer THEN
            RETURN format('has more than %s elements', rule ->> 'max');
        END IF;
        RETURN (SELECT format('has an element that %s', farrier.param_fault(rule -> 'items', e))
                  FROM jsonb_array_elements(value) e WHERE farrier.param_fault(rule -> 'items', e) IS NOT NULL LIMIT 1);
    END IF;
    IF jsonb_typeof(value) <> 'string' THEN RETURN 'must be a string'; END IF;
    IF rule ? 'enum' AND NOT (rule -> 'enum') ? given THEN
        RETURN format('must be one of %s', (SELECT string_agg(e, ', ') FROM jsonb_array_elements_text(rule -> 'enum') e));
    END IF;
    IF char_length(given) > (rule ->> 'max')::integer THEN
        RETURN format('is longer than %s characters', rule ->> 'max');
    END IF;
    IF rule ? 'pattern' AND given !~ (rule ->> 'pattern') THEN
        RETURN CASE WHEN rule ->> 'pattern' IN ('\S', '\A\S+\Z') THEN 'is blank or has blanks in it'
                    WHEN rule ->> 'pattern' = '.' THEN 'is empty'
                    ELSE format('does not match %s', rule ->> 'pattern') END;
    END IF;
    RETURN NULL;
END $$;

-- A table of a kind may have been dropped: whatever goes over all kinds passes such a kind over, and this refuses it.
CREATE FUNCTION farrier.relation_of(of_kind text) RETURNS regclass
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    found regclass;
    there boolean;
BEGIN
    SELECT k.relation, EXISTS (SELECT FROM pg_class c WHERE c.oid = k.relation) INTO found, there FROM kinds k WHERE k.kind = of_kind;
    IF found IS NULL THEN
        RAISE EXCEPTION 'unknown kind %', coalesce(quote_literal(of_kind), 'null')
            USING ERRCODE = 'FR400',
                  HINT = coalesce((SELECT 'Known: ' || string_agg(k.kind, ', ' ORDER BY k.kind) FROM kinds k), 'No kind is installed.');
    END IF;
    IF NOT there THEN
        RAISE EXCEPTION 'the table of kind % was dropped', of_kind
            USING ERRCODE = 'FR409', HINT = format('farrier kind remove %s forgets the kind, farrier kind install makes it anew.', of_kind);
    END IF;
    RETURN found;
END $$;

CREATE FUNCTION farrier.find_resource(of_kind text, given text) RETURNS bigint
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    found_id bigint;
    ended timestamptz;
BEGIN
    EXECUTE format(CASE WHEN given ~ '^[0-9]{1,18}$' THEN 'SELECT r.id, r.ended_at FROM %s r WHERE r.id = $1::bigint'
                        ELSE 'SELECT r.id, r.ended_at FROM %s r WHERE r.name = $1 AND r.ended_at IS NULL' END,
                   relation_of(of_kind)) INTO found_id, ended USING given;
    IF found_id IS NULL THEN
        RAISE EXCEPTION 'no % is named % (a name or an id was expected)', replace(of_kind, '_', ' '), coalesce(quote_literal(given), 'null')
            USING ERRCODE = 'FR404', HINT = format('SELECT name FROM farrier.list_resources(%L) lists them.', of_kind);
    END IF;
    IF ended IS NOT NULL THEN
        RAISE EXCEPTION '% % has ended', replace(of_kind, '_', ' '), given
            USING ERRCODE = 'FR404', HINT = 'Create it again: that makes a new id.';
    END IF;
    RETURN found_id;
END $$;

-- Makes what an intent asks for: params are columns of the kind's table, and what they leave out has its default.
CREATE FUNCTION farrier.create_resource(of_kind text, called text, params jsonb) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    relation regclass := relation_of(of_kind);
    columns text := (SELECT string_agg(format('%I', k), ', ' ORDER BY k) FROM jsonb_object_keys(params || '{"name": ""}') k);
    made bigint;
    violated text;
    advice text;
BEGIN
    EXECUTE format('INSERT INTO %1$s (%2$s) SELECT %2$s FROM jsonb_populate_record(NULL::%1$s, $1) RETURNING id', relation, columns)
       INTO made USING params || jsonb_build_object('name', called);
    RETURN made;
EXCEPTION
    WHEN unique_violation THEN
        GET STACKED DIAGNOSTICS violated = CONSTRAINT_NAME;
        IF violated <> name_index(of_kind) THEN RAISE; END IF;
        RAISE EXCEPTION '% % exists already', replace(of_kind, '_', ' '), quote_literal(called)
            USING ERRCODE = 'unique_violation', CONSTRAINT = violated,
                  HINT = 'Its name is free again when it has ended. farrier.resource_intent() with an idempotency key may be repeated.';
    WHEN check_violation THEN
        GET STACKED DIAGNOSTICS violated = CONSTRAINT_NAME;
        IF violated NOT IN ('resources_name_check') THEN RAISE; END IF;
        RAISE EXCEPTION '% is no name: it has 1 to 253 letters, digits, dots, dashes and underscores, not digits alone', quote_literal(called)
            USING ERRCODE = 'FR400';
    WHEN data_exception THEN  -- a number, or another text, that the column cannot hold
        GET STACKED DIAGNOSTICS advice = PG_EXCEPTION_HINT;
        RAISE EXCEPTION 'create: %', SQLERRM USING ERRCODE = 'FR400', HINT = advice;
END $$;

-- A name of a kind is 40 bytes at most, so this is never cut short.
CREATE FUNCTION farrier.name_index(of_kind text) RETURNS text
    LANGUAGE sql IMMUTABLE
    RETURN of_kind || '_live_name';

CREATE FUNCTION farrier.validate_resource_intent() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    spec jsonb;
    fault text;
    first_id bigint;
BEGIN
    PERFORM relation_of(NEW.kind);
    SELECT a.params INTO spec FROM kind_actions a WHERE a.kind = NEW.kind AND a.action = NEW.action;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'unknown action % of kind %', coalesce(quote_literal(NEW.action), 'null'), NEW.kind
            USING ERRCODE = 'FR400',
                  HINT = (SELECT 'Known: ' || string_agg(a.action, ', ' ORDER BY a.action) FROM kind_actions a WHERE a.kind = NEW.kind);
    END IF;
    IF octet_length(NEW.params::text) > 16384 THEN
        RAISE EXCEPTION 'params are % bytes; 16384 is the most', octet_length(NEW.params::text) USING ERRCODE = 'FR400';
    END IF;
    fault := CASE WHEN NEW.params IS NULL THEN 'params must be a JSON object' ELSE params_fault(spec, NEW.params) END;
    IF fault IS NOT NULL THEN
        RAISE EXCEPTION '%: %', NEW.action, fault USING ERRCODE = 'FR400';
    END IF;
    IF NEW.resource IS NULL THEN
        RAISE EXCEPTION '%: which one? `resource` is missing', NEW.action USING ERRCODE = 'FR400';
    END IF;
    IF char_length(NEW.idempotency_key) > 255 OR char_length(NEW.requested_by) > 255 THEN
        RAISE EXCEPTION '% is longer than 255 characters',
            CASE WHEN char_length(NEW.idempotency_key) > 255 THEN 'idempotency_key' ELSE 'requested_by' END USING ERRCODE = 'FR400';
    END IF;
    NEW.created_at := farrier.now();
    IF NEW.idempotency_key IS NOT NULL THEN
        first_id := resource_intent_by_key(NEW.kind, NEW.resource, NEW.action, NEW.idempotency_key);
        IF first_id IS NOT NULL THEN
            RAISE EXCEPTION '% % already has an intent with idempotency key %: intent %', replace(NEW.kind, '_', ' '), NEW.resource,
                quote_literal(NEW.idempotency_key), first_id
                USING ERRCODE = 'unique_violation', CONSTRAINT = 'resource_intents_key',
                      HINT = 'farrier.resource_intent() returns the first intent instead of failing.';
        END IF;
    END IF;
    IF NEW.action = 'create' THEN
        -- For the first row of its history, which a trigger writes.
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

-- The intent that has this key: of the resource that is meant now, whatever it asked for; else the newest that asked the
-- same of this name, or of this id, so that a call may be repeated when its resource has ended meanwhile.
CREATE FUNCTION farrier.resource_intent_by_key(of_kind text, called text, of_action text, key text) RETURNS bigint
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    meant bigint := CASE WHEN called ~ '^[0-9]{1,18}$' THEN called::bigint END;
    found_id bigint;
BEGIN
    IF meant IS NULL THEN
        EXECUTE format('SELECT r.id FROM %s r WHERE r.name = $1 AND r.ended_at IS NULL', relation_of(of_kind)) INTO meant USING called;
    END IF;
    SELECT i.id INTO found_id FROM resource_intents i WHERE i.kind = of_kind AND i.resource_id = meant AND i.idempotency_key = key;
    IF found_id IS NULL THEN
        SELECT i.id INTO found_id FROM resource_intents i
         WHERE i.kind = of_kind AND i.resource = called AND i.idempotency_key = key AND i.action = of_action
         ORDER BY i.id DESC LIMIT 1;
    END IF;
    RETURN found_id;
END $$;
CREATE TRIGGER validate BEFORE INSERT ON farrier.resource_intents
    FOR EACH ROW EXECUTE FUNCTION farrier.validate_resource_intent();

CREATE FUNCTION farrier.wake_for_resource_intents() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    INSERT INTO wake_requests (kind, id) SELECT DISTINCT kind, resource_id FROM new_rows WHERE status = 'pending';
    RETURN NULL;
END $$;
CREATE TRIGGER wake AFTER INSERT ON farrier.resource_intents
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION farrier.wake_for_resource_intents();

CREATE FUNCTION farrier.tell_resource_intent_answered() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('farrier_resource_intent_answered', '');  -- once per commit: equal ones are told once
    RETURN NULL;
END $$;
CREATE TRIGGER tell_answered AFTER UPDATE ON farrier.resource_intents
    FOR EACH ROW WHEN (OLD.status = 'pending' AND NEW.status <> 'pending') EXECUTE FUNCTION farrier.tell_resource_intent_answered();

-- An intent as one call: the id of the new intent, or of the first with this key. The same key with other content is
-- an error.
CREATE FUNCTION farrier.resource_intent(kind text, resource text, action text, params jsonb DEFAULT '{}',
                                        idempotency_key text DEFAULT NULL, requested_by text DEFAULT NULL) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    new_id bigint;
    first record;
BEGIN
    INSERT INTO resource_intents (kind, resource, action, params, idempotency_key, requested_by)
    VALUES (resource_intent.kind, resource_intent.resource, resource_intent.action, resource_intent.params,
            resource_intent.idempotency_key, resource_intent.requested_by)
    RETURNING id INTO new_id;
    RETURN new_id;
EXCEPTION WHEN OTHERS THEN
    -- The first may have committed while this one waited for its name, its number or its addresses, which are taken now:
    -- whatever this one was refused for, the first's answer is the answer.
    SELECT i.id, i.action, i.params INTO first FROM resource_intents i
     WHERE resource_intent.idempotency_key IS NOT NULL
       AND i.id = resource_intent_by_key(resource_intent.kind, resource_intent.resource, resource_intent.action,
                                         resource_intent.idempotency_key);
    IF NOT FOUND THEN RAISE; END IF;
    IF first.action = resource_intent.action AND first.params = resource_intent.params THEN
        RETURN first.id;
    END IF;
    RAISE EXCEPTION 'idempotency key % belongs to intent %, which asks for % %', quote_literal(resource_intent.idempotency_key),
        first.id, first.action, first.params
        USING ERRCODE = 'FR400', HINT = 'One key is one request; take a new key for a new one.';
END $$;
