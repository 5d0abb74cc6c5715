-- Kinds of resources besides nodes: what they have in common. A kind is a table like farrier.resources, made known by
-- farrier.make_kind; its states, edges and actions are filled from its KindSpec.

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
    NEW.resource_id := CASE NEW.action WHEN 'create' THEN create_resource(NEW.kind, NEW.resource, NEW.params)
                                       ELSE find_resource(NEW.kind, NEW.resource) END;
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

-- Triggers of every kind's table. A resource begins in its kind's first state and is scheduled at once; it moves along
-- edges of the model only; one that enters a terminal state has ended, and gives
-- back its numbers. The argument is the kind.
CREATE FUNCTION farrier.begin_resource() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    first text := (SELECT v.value FROM initial_values v WHERE v.kind = TG_ARGV[0] AND v.layer = 'state');
BEGIN
    IF first IS NULL THEN
        RAISE EXCEPTION 'kind % has no states yet', TG_ARGV[0]
            USING ERRCODE = 'FR409', HINT = 'farrier db migrate fills in kinds that come with farrier, farrier kind install others.';
    END IF;
    NEW.state := coalesce(NEW.state, first);
    IF NEW.state <> first THEN
        RAISE EXCEPTION 'a % does not begin as %', replace(TG_ARGV[0], '_', ' '), NEW.state
            USING ERRCODE = 'FR409', HINT = format('It begins as %s.', first);
    END IF;
    RETURN NEW;
END $$;
CREATE FUNCTION farrier.schedule_resource() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    PERFORM schedule_new(TG_ARGV[0], NEW.id, '0');
    PERFORM enqueue(TG_ARGV[0], NEW.id);
    RETURN NULL;
END $$;
CREATE FUNCTION farrier.enter_state() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM edges e WHERE e.kind = TG_ARGV[0] AND e.layer = 'state'
                                         AND e.from_value = OLD.state AND e.to_value = NEW.state) THEN
        RAISE EXCEPTION '% %: the model has no edge % -> %', replace(TG_ARGV[0], '_', ' '), NEW.name, OLD.state, NEW.state
            USING ERRCODE = 'FR409', HINT = 'farrier.edges lists every edge; intents are how to ask for one.';
    END IF;
    NEW.state_entered_at := farrier.now();
    IF EXISTS (SELECT FROM kind_states s WHERE s.kind = TG_ARGV[0] AND s.state = NEW.state AND s.terminal) THEN
        NEW.ended_at := farrier.now();
        PERFORM free_numbers(TG_ARGV[0], NEW.id);
    END IF;
    RETURN NEW;
END $$;

-- Whatever a handler forgot to answer: nobody runs any more who could. A request that comes later is a wake, which keeps
-- the row on the schedule, or finds none and is refused.
CREATE FUNCTION farrier.refuse_leftovers() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    UPDATE resource_intents i SET status = 'rejected', reason = format('this %s has ended', replace(OLD.kind, '_', ' ')), answered_at = farrier.now()
     WHERE i.kind = OLD.kind AND i.resource_id = OLD.id AND i.status = 'pending';
    RETURN NULL;
END $$;
CREATE TRIGGER refuse_leftovers AFTER DELETE ON farrier.schedule
    FOR EACH ROW WHEN (OLD.kind NOT IN ('node', 'maas_region')) EXECUTE FUNCTION farrier.refuse_leftovers();

-- Makes a table LIKE farrier.resources INCLUDING ALL a kind. May be called again; what is there already is not touched, so
-- nobody who works with the table is waited for.
CREATE FUNCTION farrier.make_kind(kind text, relation regclass) RETURNS void
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
DECLARE
    missing text := (SELECT string_agg(t.attname, ', ' ORDER BY t.attnum) FROM pg_attribute t
                      WHERE t.attrelid = 'farrier.resources'::regclass AND t.attnum > 0 AND NOT t.attisdropped
                        AND NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = relation AND a.attname = t.attname
                                                                     AND a.atttypid = t.atttypid AND NOT a.attisdropped));
    other record;
    one record;
BEGIN
    IF missing IS NOT NULL THEN
        RAISE EXCEPTION '% lacks columns: %', relation, missing
            USING ERRCODE = 'FR400', HINT = 'CREATE TABLE ... (LIKE farrier.resources INCLUDING ALL, ...)';
    END IF;
    SELECT k.* INTO other FROM kinds k
     WHERE (k.kind = make_kind.kind) <> (k.relation = make_kind.relation) AND EXISTS (SELECT FROM pg_class c WHERE c.oid = k.relation);
    IF FOUND THEN
        RAISE EXCEPTION 'kind % has table % already', other.kind, other.relation
            USING ERRCODE = 'FR409', HINT = 'A kind has one table, and a table one kind; farrier kind remove forgets a kind.';
    END IF;
    IF NOT EXISTS (SELECT FROM kinds k WHERE k.kind = make_kind.kind AND k.relation = make_kind.relation) THEN
        INSERT INTO kinds AS k VALUES (make_kind.kind, make_kind.relation)
            ON CONFLICT ON CONSTRAINT kinds_pkey DO UPDATE SET relation = excluded.relation;
        EXECUTE format('ALTER TABLE %s SET (fillfactor = 80)', relation);  -- LIKE does not copy it
        PERFORM begin_ids(make_kind.kind, relation);
    END IF;
    IF NOT EXISTS (SELECT FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
                    WHERE i.indrelid = relation AND c.relname = name_index(kind) AND i.indisunique) THEN
        EXECUTE format('CREATE UNIQUE INDEX %I ON %s (name) WHERE ended_at IS NULL', name_index(kind), relation);
    END IF;
    FOR one IN SELECT w.* FROM (VALUES ('begin_resource', 'BEFORE INSERT', ''), ('schedule_resource', 'AFTER INSERT', ''),
                                       ('enter_state', 'BEFORE UPDATE', 'WHEN (OLD.state <> NEW.state)')) w (name, at, condition)
                WHERE NOT EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = relation AND t.tgname = w.name
                                     AND t.tgfoid = to_regproc('farrier.' || w.name)) LOOP
        EXECUTE format('CREATE TRIGGER %1$I %2$s ON %3$s FOR EACH ROW %4$s EXECUTE FUNCTION farrier.%1$I(%5$L)',
            one.name, one.at, relation, one.condition, kind);
    END LOOP;
    PERFORM grant_kind_rights(relation);
END $$;

-- Ids of a kind whose table was dropped do not come again: they are in its history and requests.
CREATE FUNCTION farrier.begin_ids(of_kind text, relation regclass) RETURNS void
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
DECLARE
    known bigint := greatest((SELECT max(i.resource_id) FROM resource_intents i WHERE i.kind = of_kind),
                             (SELECT max(h.id) FROM history h WHERE h.kind = of_kind));
    here bigint;
BEGIN
    EXECUTE format('SELECT max(r.id) FROM %s r', relation) INTO here;
    IF known > coalesce(here, 0) THEN
        EXECUTE format('ALTER TABLE %s ALTER id RESTART WITH %s', relation, known + 1);
    END IF;
END $$;

-- The states that resources of a kind are in, which nobody changes until this transaction ends.
CREATE FUNCTION farrier.inhabited_states(of_kind text) RETURNS SETOF text
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
BEGIN
    EXECUTE format('LOCK TABLE %s IN SHARE ROW EXCLUSIVE MODE', relation_of(of_kind));
    RETURN QUERY EXECUTE format('SELECT DISTINCT r.state FROM %s r WHERE r.ended_at IS NULL ORDER BY r.state', relation_of(of_kind));
END $$;

-- Forgets a kind, of which nothing may be left that has not ended. Its table stays, and so do history and requests; only its
-- rows of the schedule, its last outcomes and its numbers go. Does the same for a kind whose table was dropped.
CREATE FUNCTION farrier.forget_kind(of_kind text) RETURNS void
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
DECLARE
    relation regclass := (SELECT k.relation FROM kinds k JOIN pg_class c ON c.oid = k.relation WHERE k.kind = of_kind);
    living record;
    hook text;
BEGIN
    IF NOT EXISTS (SELECT FROM kinds k WHERE k.kind = of_kind) THEN PERFORM relation_of(of_kind); END IF;
    IF relation IS NOT NULL THEN
        EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', relation);
        EXECUTE format('SELECT count(*) AS n, min(r.name) AS first FROM %s r WHERE r.ended_at IS NULL', relation) INTO living;
        IF living.n > 0 THEN
            RAISE EXCEPTION 'resources of kind % have not ended: % in all, such as %', of_kind, living.n, living.first
                USING ERRCODE = 'FR409', HINT = 'Delete them first, and let the daemon end them; then the kind may go.';
        END IF;
        FOREACH hook IN ARRAY ARRAY['begin_resource', 'schedule_resource', 'enter_state'] LOOP
            EXECUTE format('DROP TRIGGER IF EXISTS %I ON %s', hook, relation);
        END LOOP;
    END IF;
    PERFORM free_numbers(n.kind, n.id) FROM (SELECT DISTINCT kind, id FROM pool_numbers WHERE kind = of_kind) n;
    DELETE FROM schedule WHERE kind = of_kind;
    UPDATE resource_intents i SET status = 'rejected', reason = 'its kind was removed', answered_at = farrier.now()
     WHERE i.kind = of_kind AND i.status = 'pending';
    DELETE FROM outcomes WHERE kind = of_kind;
    DELETE FROM edges WHERE kind = of_kind;
    DELETE FROM initial_values WHERE kind = of_kind;
    DELETE FROM kind_actions WHERE kind = of_kind;
    DELETE FROM kind_states WHERE kind = of_kind;
    DELETE FROM kinds WHERE kind = of_kind;
    DELETE FROM callable WHERE to_regprocedure(function) IS NULL;
END $$;

-- The controller works on a kind's table; who asks and who reads may look at it. They see the schema, in which functions are
-- everybody's: those that act with their owner's rights are left to the controller, and to whom let_call names.
CREATE FUNCTION farrier.grant_kind_rights(relation regclass) RETURNS void
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
DECLARE
    role_name text;
    place record;
    mighty record;
BEGIN
    SELECT c.relnamespace::regnamespace AS name, c.relnamespace AS id, c.relowner AS owner INTO place FROM pg_class c WHERE c.oid = relation;
    FOR role_name IN SELECT rolname FROM pg_roles WHERE rolname IN ('farrier_controller', 'farrier_intents', 'farrier_reader') LOOP
        EXECUTE format('GRANT USAGE ON SCHEMA %s TO %I', place.name, role_name);
        EXECUTE format('GRANT %s ON %s TO %I',
            CASE role_name WHEN 'farrier_controller' THEN 'SELECT, INSERT, UPDATE, DELETE' ELSE 'SELECT' END, relation, role_name);
    END LOOP;
    IF place.name::text IN ('farrier', 'public') THEN RETURN; END IF;
    FOR mighty IN SELECT p.oid::regprocedure AS function FROM pg_proc p
                   WHERE p.pronamespace = place.id AND p.prosecdef AND p.proowner = place.owner AND p.prokind = 'f' LOOP
        EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', mighty.function);
        IF to_regrole('farrier_controller') IS NOT NULL THEN
            EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO farrier_controller', mighty.function);
        END IF;
    END LOOP;
END $$;

-- Snapshots for a kind's load, with the requests that wait. One that adds something of its own builds on this. Intervals
-- are as ISO 8601 has them, which is what they are decoded from.
CREATE FUNCTION farrier.load_resources(of_kind text, ids bigint[]) RETURNS TABLE (id bigint, now timestamptz, snapshot jsonb)
    LANGUAGE plpgsql STABLE SET search_path = farrier, pg_temp SET IntervalStyle = 'iso_8601' AS $$
BEGIN
    RETURN QUERY EXECUTE format(
        'SELECT r.id, farrier.now(), to_jsonb(r) || jsonb_build_object(''requests'', (
             SELECT coalesce(jsonb_agg(jsonb_build_object(''id'', i.id, ''action'', i.action, ''params'', i.params,
                        ''created_at'', i.created_at, ''requested_by'', i.requested_by) ORDER BY i.id), ''[]'')
               FROM farrier.resource_intents i WHERE i.kind = $1 AND i.resource_id = r.id AND i.status = ''pending''))
           FROM %s r WHERE r.id = ANY ($2)', relation_of(of_kind)) USING of_kind, ids;
END $$;

-- The writer of kinds with one table. Sections: `kind` [{run, kind}], `runs`, `resources` [{run, columns}], `answers`
-- [{run, request, accepted, reason}]. One with more tables calls this first, and writes no section of a run that it answers.
CREATE FUNCTION farrier.write_resources(changes jsonb) RETURNS TABLE (run bigint, due_in interval)
    LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    of_kind text := changes #>> '{kind,0,kind}';
    relation regclass := farrier.relation_of(of_kind);
    columns text;
    fit bigint[];
BEGIN
    EXECUTE format('SELECT coalesce(array_agg(l.id), ''{}'') FROM (
                        SELECT r.id FROM %s r JOIN jsonb_to_recordset($1) c (run bigint, version bigint)
                            ON c.run = r.id AND c.version = r.version
                         ORDER BY r.id FOR NO KEY UPDATE OF r) l', relation) INTO fit USING changes -> 'runs';
    IF cardinality(fit) < jsonb_array_length(changes -> 'runs') THEN
        RETURN QUERY SELECT c.run, interval '0' FROM jsonb_to_recordset(changes -> 'runs') c (run bigint) WHERE c.run <> ALL (fit);
        changes := farrier.of_runs(changes, fit);
    END IF;
    columns := (SELECT string_agg(format('%1$I = c.%1$I', k), ', ' ORDER BY k)
                  FROM jsonb_object_keys(changes #> '{resources,0}') k WHERE k <> 'run');
    IF columns IS NOT NULL THEN
        EXECUTE format('UPDATE %1$s r SET version = r.version + 1, %2$s
                          FROM jsonb_array_elements($1) e, jsonb_populate_record(NULL::%1$s, e) c
                         WHERE r.id = (e ->> ''run'')::bigint', relation, columns) USING changes -> 'resources';
    END IF;
    UPDATE farrier.resource_intents i
       SET status = CASE WHEN a.accepted THEN 'accepted' ELSE 'rejected' END, reason = nullif(a.reason, ''), answered_at = farrier.now()
      FROM jsonb_to_recordset(changes -> 'answers') a (run bigint, request bigint, accepted boolean, reason text)
     WHERE i.id = a.request AND i.kind = of_kind AND i.resource_id = a.run AND i.status = 'pending';
END $$;

-- How `detail` is read of a row `r`: the columns of the kind's own, and what KIND_detail(id) adds, where there is such a
-- function in the schema of the kind's table.
CREATE FUNCTION farrier.detail_of(of_kind text, relation regclass) RETURNS text
    LANGUAGE plpgsql STABLE SET search_path = farrier, pg_temp AS $$
DECLARE
    adds text := (SELECT format('%I.%I', c.relnamespace::regnamespace::text, of_kind || '_detail') FROM pg_class c WHERE c.oid = relation);
BEGIN
    RETURN 'to_jsonb(r) - ''{id,name,site,version,state,state_entered_at,created_at,ended_at,last_error}''::text[]'
           || CASE WHEN to_regprocedure(adds || '(bigint)') IS NULL THEN '' ELSE format(' || coalesce(%s(r.id), ''{}'')', adds) END;
END $$;

-- Resources of a kind, or of all kinds, with what their last run said; `ended` adds those that are no more.
CREATE FUNCTION farrier.list_resources(of_kind text, ended boolean DEFAULT false)
    RETURNS TABLE (kind text, id bigint, name text, site text, state text, state_entered_at timestamptz, created_at timestamptz,
                   ended_at timestamptz, last_error text, detail jsonb, outcome jsonb, outcome_at timestamptz, due_at timestamptz)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    one record;
BEGIN
    IF of_kind IS NOT NULL THEN PERFORM relation_of(of_kind); END IF;
    FOR one IN SELECT k.* FROM kinds k JOIN pg_class c ON c.oid = k.relation WHERE of_kind IS NULL OR k.kind = of_kind ORDER BY k.kind LOOP
        RETURN QUERY EXECUTE format(
            'SELECT $1, r.id, r.name, r.site, r.state, r.state_entered_at, r.created_at, r.ended_at, r.last_error,
                    %s,
                    o.outcome, o.at, s.due_at
               FROM %s r
               LEFT JOIN farrier.outcomes o ON o.kind = $1 AND o.id = r.id
               LEFT JOIN farrier.schedule s ON s.kind = $1 AND s.id = r.id
              WHERE $2 OR r.ended_at IS NULL
              ORDER BY r.name, r.id', detail_of(one.kind, one.relation), one.relation) USING one.kind, ended;
    END LOOP;
END $$;

-- Pools of numbers that resources take: VLANs, keys of partitions. However many are taken, the lowest free one is found at
-- once: it is the lowest that was given back, or the first that nobody has at or above the mark `next`, below which every
-- number of the pool is taken or was given back.
CREATE TABLE farrier.number_pools (
    pool  text    PRIMARY KEY,
    first integer NOT NULL,
    last  integer NOT NULL,
    next  bigint  NOT NULL,
    CHECK (first <= last AND first <= next)
);
CREATE TABLE farrier.pool_numbers (
    pool   text    NOT NULL REFERENCES farrier.number_pools,
    number integer NOT NULL,
    kind   text    NOT NULL,
    id     bigint  NOT NULL,
    PRIMARY KEY (pool, number)
);
CREATE INDEX pool_numbers_holder ON farrier.pool_numbers (kind, id);
-- No reference to the pool: whoever gives back waits for no taker.
CREATE TABLE farrier.freed_numbers (
    pool   text    NOT NULL,
    number integer NOT NULL,
    PRIMARY KEY (pool, number)
);

-- Makes a pool, or gives it other bounds. May be called again. Waits for those who take numbers.
CREATE FUNCTION farrier.set_pool(pool text, first integer, last integer) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
#variable_conflict use_column
DECLARE
    outside text;
BEGIN
    IF set_pool.first > set_pool.last THEN
        RAISE EXCEPTION 'pool % would go from % to %', set_pool.pool, set_pool.first, set_pool.last USING ERRCODE = 'FR400';
    END IF;
    -- What is below the old bounds was never looked at: the mark goes back, and the next taker finds its place again.
    INSERT INTO number_pools AS p VALUES (set_pool.pool, set_pool.first, set_pool.last, set_pool.first)
        ON CONFLICT (pool) DO UPDATE SET first = excluded.first, last = excluded.last,
            next = CASE WHEN excluded.first < p.first THEN excluded.first ELSE greatest(p.next, excluded.first) END;
    SELECT string_agg(format('%s (%s %s)', t.number, replace(t.kind, '_', ' '), t.id), ', ' ORDER BY t.number) INTO outside
      FROM (SELECT n.* FROM pool_numbers n WHERE n.pool = set_pool.pool
               AND n.number NOT BETWEEN set_pool.first AND set_pool.last ORDER BY n.number LIMIT 5) t;
    IF outside IS NOT NULL THEN
        RAISE EXCEPTION 'pool % cannot go from % to %: taken outside are %', set_pool.pool, set_pool.first, set_pool.last, outside
            USING ERRCODE = 'FR409', HINT = 'Delete what has those numbers, or keep them inside.';
    END IF;
END $$;

-- Takes a number for a resource: the one that is wanted, else the lowest that is free. Takers of one pool take turns: each
-- has the pool until its transaction ends.
CREATE FUNCTION farrier.take_number(pool text, kind text, id bigint, wanted integer DEFAULT NULL) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    bounds record;
    holder record;
    ahead integer;
    mark bigint;
    taken integer;
BEGIN
    SELECT p.first, p.last, p.next INTO bounds FROM number_pools p WHERE p.pool = take_number.pool FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no pool %', coalesce(quote_literal(pool), 'null')
            USING ERRCODE = 'FR409', HINT = format('SELECT farrier.set_pool(%L, first, last) makes one.', pool);
    END IF;
    IF wanted IS NULL THEN
        mark := bounds.next;
        SELECT f.number INTO taken FROM freed_numbers f
         WHERE f.pool = take_number.pool AND f.number BETWEEN bounds.first AND bounds.last ORDER BY f.number LIMIT 1;
        IF taken IS NULL OR taken >= mark THEN
            -- Past numbers that were wanted, each of which is passed once.
            FOR ahead IN SELECT n.number FROM pool_numbers n WHERE n.pool = take_number.pool AND n.number >= mark ORDER BY n.number LOOP
                EXIT WHEN ahead > mark;
                mark := mark + 1;
            END LOOP;
            IF mark <= bounds.last THEN
                taken := mark;
                mark := mark + 1;
            END IF;
        END IF;
        IF mark <> bounds.next THEN UPDATE number_pools p SET next = mark WHERE p.pool = take_number.pool; END IF;
        IF taken IS NULL THEN
            RAISE EXCEPTION 'pool % is empty: all of % to % are taken', pool, bounds.first, bounds.last
                USING ERRCODE = 'FR409', HINT = 'farrier.set_pool() widens it.';
        END IF;
    ELSIF wanted NOT BETWEEN bounds.first AND bounds.last THEN
        RAISE EXCEPTION '% is not in pool %, which goes from % to %', wanted, pool, bounds.first, bounds.last USING ERRCODE = 'FR409';
    ELSE
        SELECT n.kind, n.id INTO holder FROM pool_numbers n WHERE n.pool = take_number.pool AND n.number = wanted;
        IF FOUND THEN
            RAISE EXCEPTION '% of pool % is taken by % %', wanted, pool, replace(holder.kind, '_', ' '), holder.id
                USING ERRCODE = 'FR409', HINT = 'Leave it out to get one that is free.';
        END IF;
        taken := wanted;
    END IF;
    DELETE FROM freed_numbers f WHERE f.pool = take_number.pool AND f.number = taken;
    INSERT INTO pool_numbers VALUES (pool, taken, take_number.kind, take_number.id);
    RETURN taken;
END $$;

-- Gives back all numbers of a resource; waits for nobody. May be called again. A resource that ends does it by itself.
CREATE FUNCTION farrier.free_numbers(kind text, id bigint) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
    WITH gone AS (DELETE FROM pool_numbers n WHERE n.kind = $1 AND n.id = $2 RETURNING n.pool, n.number)
    INSERT INTO freed_numbers SELECT g.pool, g.number FROM gone g ON CONFLICT DO NOTHING;
$$;

-- Rights, besides those that were: of the kinds' tables, and of functions that later migrations or kinds of others let a
-- role call.
CREATE TABLE farrier.callable (
    role_name text NOT NULL,
    function  text NOT NULL,   -- with its arguments: 'farrier.take_address(text,bigint)'
    PRIMARY KEY (role_name, function)
);
ALTER FUNCTION farrier.grant_rights() RENAME TO grant_basic_rights;
CREATE FUNCTION farrier.grant_rights() RETURNS void LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
DECLARE
    one record;
BEGIN
    PERFORM grant_basic_rights();
    PERFORM grant_kind_rights(k.relation) FROM kinds k JOIN pg_class c ON c.oid = k.relation;
    IF to_regrole('farrier_controller') IS NOT NULL THEN
        REVOKE INSERT, UPDATE, DELETE ON kinds, kind_states, kind_actions, callable FROM farrier_controller;
        REVOKE EXECUTE ON FUNCTION grant_rights(), grant_basic_rights(), grant_kind_rights(regclass), make_kind(text, regclass),
            forget_kind(text), let_call(text, text) FROM farrier_controller;
    END IF;
    IF to_regrole('farrier_intents') IS NOT NULL THEN
        GRANT INSERT (kind, resource, action, params, idempotency_key, requested_by) ON resource_intents TO farrier_intents;
        GRANT SELECT ON resource_intents, kinds, kind_states, kind_actions TO farrier_intents;
        GRANT EXECUTE ON FUNCTION resource_intent(text, text, text, jsonb, text, text), list_resources(text, boolean) TO farrier_intents;
    END IF;
    IF to_regrole('farrier_reader') IS NOT NULL THEN
        GRANT SELECT ON resource_intents, kinds, kind_states, kind_actions, number_pools, pool_numbers TO farrier_reader;
        GRANT EXECUTE ON FUNCTION list_resources(text, boolean) TO farrier_reader;
    END IF;
    -- One that was dropped, with the schema of its kind, is passed over.
    FOR one IN SELECT c.* FROM callable c WHERE to_regrole(c.role_name) IS NOT NULL AND to_regprocedure(c.function) IS NOT NULL LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', one.function::regprocedure, one.role_name);
    END LOOP;
END $$;

-- Lets a role call a function that is none of the above; it outlives `farrier db roles`. May be called again.
CREATE FUNCTION farrier.let_call(role_name text, function text) RETURNS void
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
BEGIN
    INSERT INTO callable VALUES (role_name, function::regprocedure::text) ON CONFLICT DO NOTHING;
    IF to_regrole(role_name) IS NOT NULL THEN
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', function::regprocedure, role_name);
    END IF;
END $$;

SELECT farrier.grant_rights();
