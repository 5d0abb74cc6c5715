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

CREATE FUNCTION farrier.relation_of(of_kind text) RETURNS regclass
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    found regclass;
BEGIN
    SELECT k.relation INTO found FROM kinds k WHERE k.kind = of_kind;
    IF found IS NULL THEN
        RAISE EXCEPTION 'unknown kind %', coalesce(quote_literal(of_kind), 'null')
            USING ERRCODE = 'FR400',
                  HINT = coalesce((SELECT 'Known: ' || string_agg(k.kind, ', ' ORDER BY k.kind) FROM kinds k), 'No kind is installed.');
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
BEGIN
    EXECUTE format('INSERT INTO %1$s (%2$s) SELECT %2$s FROM jsonb_populate_record(NULL::%1$s, $1) RETURNING id', relation, columns)
       INTO made USING params || jsonb_build_object('name', called);
    RETURN made;
EXCEPTION
    WHEN unique_violation THEN
        GET STACKED DIAGNOSTICS violated = CONSTRAINT_NAME;
        IF violated <> name_index(relation) THEN RAISE; END IF;
        RAISE EXCEPTION 'there is a % named % already', replace(of_kind, '_', ' '), quote_literal(called)
            USING ERRCODE = 'unique_violation', CONSTRAINT = violated,
                  HINT = 'Its name is free again when it has ended. farrier.resource_intent() with an idempotency key may be repeated.';
    WHEN check_violation THEN
        GET STACKED DIAGNOSTICS violated = CONSTRAINT_NAME;
        IF violated NOT IN ('resources_name_check') THEN RAISE; END IF;
        RAISE EXCEPTION '% is no name: it has 1 to 253 letters, digits, dots, dashes and underscores, not digits alone', quote_literal(called)
            USING ERRCODE = 'FR400';
END $$;

CREATE FUNCTION farrier.name_index(relation regclass) RETURNS text
    LANGUAGE sql STABLE
    RETURN (SELECT left(c.relname, 50) || '_live_name' FROM pg_class c WHERE c.oid = relation);

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
    NEW.resource_id := CASE WHEN NEW.action <> 'create' THEN find_resource(NEW.kind, NEW.resource) END;
    NEW.created_at := farrier.now();
    IF NEW.idempotency_key IS NOT NULL THEN
        first_id := resource_intent_by_key(NEW.kind, NEW.resource, NEW.resource_id, NEW.idempotency_key);
        IF first_id IS NOT NULL THEN
            RAISE EXCEPTION '% % already has an intent with idempotency key %: intent %', replace(NEW.kind, '_', ' '), NEW.resource,
                quote_literal(NEW.idempotency_key), first_id
                USING ERRCODE = 'unique_violation', CONSTRAINT = 'resource_intents_key',
                      HINT = 'farrier.resource_intent() returns the first intent instead of failing.';
        END IF;
    END IF;
    IF NEW.action = 'create' THEN
        NEW.resource_id := create_resource(NEW.kind, NEW.resource, NEW.params);
    END IF;
    NEW.status := CASE NEW.action WHEN 'create' THEN 'accepted' ELSE 'pending' END;
    NEW.reason := NULL;
    NEW.answered_at := CASE NEW.action WHEN 'create' THEN farrier.now() END;
    RETURN NEW;
END $$;

-- The intent that has this key: of a name's creations where there is no id yet, else of the resource.
CREATE FUNCTION farrier.resource_intent_by_key(of_kind text, called text, of_id bigint, key text) RETURNS bigint
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
    SELECT i.id FROM resource_intents i
     WHERE i.kind = of_kind AND i.idempotency_key = key
       AND CASE WHEN of_id IS NULL THEN i.resource = called AND i.action = 'create' ELSE i.resource_id = of_id END
     LIMIT 1;
$$;
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
EXCEPTION WHEN unique_violation THEN
    SELECT i.id, i.action, i.params INTO first FROM resource_intents i
     WHERE i.id = resource_intent_by_key(
               resource_intent.kind, resource_intent.resource,
               CASE WHEN resource_intent.action <> 'create' THEN find_resource(resource_intent.kind, resource_intent.resource) END,
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
-- edges of the model only; one that enters a terminal state has ended. The argument is the kind.
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

-- Makes a table LIKE farrier.resources INCLUDING ALL a kind. May be called again.
CREATE FUNCTION farrier.make_kind(kind text, relation regclass) RETURNS void
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
DECLARE
    missing text := (SELECT string_agg(t.attname, ', ' ORDER BY t.attnum) FROM pg_attribute t
                      WHERE t.attrelid = 'farrier.resources'::regclass AND t.attnum > 0 AND NOT t.attisdropped
                        AND NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = relation AND a.attname = t.attname
                                                                     AND a.atttypid = t.atttypid AND NOT a.attisdropped));
BEGIN
    IF missing IS NOT NULL THEN
        RAISE EXCEPTION '% lacks columns: %', relation, missing
            USING ERRCODE = 'FR400', HINT = 'CREATE TABLE ... (LIKE farrier.resources INCLUDING ALL, ...)';
    END IF;
    INSERT INTO kinds AS k VALUES (make_kind.kind, make_kind.relation)
        ON CONFLICT ON CONSTRAINT kinds_pkey DO UPDATE SET relation = excluded.relation;
    EXECUTE format('ALTER TABLE %s SET (fillfactor = 80)', relation);  -- LIKE does not copy it
    EXECUTE format('CREATE UNIQUE INDEX IF NOT EXISTS %I ON %s (name) WHERE ended_at IS NULL', name_index(relation), relation);
    EXECUTE format('CREATE OR REPLACE TRIGGER begin_resource BEFORE INSERT ON %s FOR EACH ROW EXECUTE FUNCTION farrier.begin_resource(%L)', relation, kind);
    EXECUTE format('CREATE OR REPLACE TRIGGER schedule_resource AFTER INSERT ON %s FOR EACH ROW EXECUTE FUNCTION farrier.schedule_resource(%L)', relation, kind);
    EXECUTE format('CREATE OR REPLACE TRIGGER enter_state BEFORE UPDATE ON %s FOR EACH ROW WHEN (OLD.state <> NEW.state) EXECUTE FUNCTION farrier.enter_state(%L)', relation, kind);
    PERFORM grant_kind_rights(relation);
END $$;

-- The controller works on a kind's table; who asks and who reads may look at it.
CREATE FUNCTION farrier.grant_kind_rights(relation regclass) RETURNS void
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
DECLARE
    role_name text;
    schema_name text := (SELECT c.relnamespace::regnamespace::text FROM pg_class c WHERE c.oid = relation);
BEGIN
    FOR role_name IN SELECT rolname FROM pg_roles WHERE rolname IN ('farrier_controller', 'farrier_intents', 'farrier_reader') LOOP
        EXECUTE format('GRANT USAGE ON SCHEMA %s TO %I', schema_name, role_name);
        EXECUTE format('GRANT %s ON %s TO %I',
            CASE role_name WHEN 'farrier_controller' THEN 'SELECT, INSERT, UPDATE, DELETE' ELSE 'SELECT' END, relation, role_name);
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

-- Resources of a kind, or of all kinds, with what their last run said; `ended` adds those that are no more. `detail` are
-- the columns of the kind's own, and what farrier.<kind>_detail(id) says of one, where there is that function.
CREATE FUNCTION farrier.list_resources(of_kind text, ended boolean DEFAULT false)
    RETURNS TABLE (kind text, id bigint, name text, site text, state text, state_entered_at timestamptz, created_at timestamptz,
                   ended_at timestamptz, last_error text, detail jsonb, outcome jsonb, outcome_at timestamptz, due_at timestamptz)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    one record;
BEGIN
    IF of_kind IS NOT NULL THEN PERFORM relation_of(of_kind); END IF;
    FOR one IN SELECT k.* FROM kinds k WHERE of_kind IS NULL OR k.kind = of_kind ORDER BY k.kind LOOP
        RETURN QUERY EXECUTE format(
            'SELECT $1, r.id, r.name, r.site, r.state, r.state_entered_at, r.created_at, r.ended_at, r.last_error,
                    to_jsonb(r) - ''{id,name,site,version,state,state_entered_at,created_at,ended_at,last_error}''::text[] %s,
                    o.outcome, o.at, s.due_at
               FROM %s r
               LEFT JOIN farrier.outcomes o ON o.kind = $1 AND o.id = r.id
               LEFT JOIN farrier.schedule s ON s.kind = $1 AND s.id = r.id
              WHERE $2 OR r.ended_at IS NULL
              ORDER BY r.name, r.id', '|| ' || to_regprocedure(format('farrier.%I(bigint)', one.kind || '_detail'))::regproc || '(r.id)',
            one.relation) USING one.kind, ended;
    END LOOP;
END $$;

-- Pools of numbers that resources take: VLANs, keys of partitions.
CREATE TABLE farrier.number_pools (
    pool  text    PRIMARY KEY,
    first integer NOT NULL,
    last  integer NOT NULL,
    CHECK (first <= last)
);
CREATE TABLE farrier.pool_numbers (
    pool   text    NOT NULL REFERENCES farrier.number_pools,
    number integer NOT NULL,
    kind   text    NOT NULL,
    id     bigint  NOT NULL,
    PRIMARY KEY (pool, number)
);
CREATE INDEX pool_numbers_holder ON farrier.pool_numbers (kind, id);

-- Makes a pool, or gives it other bounds. May be called again.
CREATE FUNCTION farrier.set_pool(pool text, first integer, last integer) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
#variable_conflict use_column
DECLARE
    outside text;
BEGIN
    IF set_pool.first > set_pool.last THEN
        RAISE EXCEPTION 'pool % would go from % to %', set_pool.pool, set_pool.first, set_pool.last USING ERRCODE = 'FR400';
    END IF;
    INSERT INTO number_pools VALUES (set_pool.pool, set_pool.first, set_pool.last)
        ON CONFLICT (pool) DO UPDATE SET first = excluded.first, last = excluded.last;
    SELECT string_agg(format('%s (%s %s)', t.number, replace(t.kind, '_', ' '), t.id), ', ' ORDER BY t.number) INTO outside
      FROM (SELECT n.* FROM pool_numbers n WHERE n.pool = set_pool.pool
               AND n.number NOT BETWEEN set_pool.first AND set_pool.last ORDER BY n.number LIMIT 5) t;
    IF outside IS NOT NULL THEN
        RAISE EXCEPTION 'pool % cannot go from % to %: taken outside are %', set_pool.pool, set_pool.first, set_pool.last, outside
            USING ERRCODE = 'FR409', HINT = 'Delete what has those numbers, or keep them inside.';
    END IF;
END $$;

-- Takes a number for a resource: the one that is wanted, else the lowest that is free. Takers of one pool take turns.
CREATE FUNCTION farrier.take_number(pool text, kind text, id bigint, wanted integer DEFAULT NULL) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    bounds record;
    holder record;
    taken integer;
BEGIN
    SELECT p.first, p.last INTO bounds FROM number_pools p WHERE p.pool = take_number.pool FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no pool %', coalesce(quote_literal(pool), 'null')
            USING ERRCODE = 'FR409', HINT = format('SELECT farrier.set_pool(%L, first, last) makes one.', pool);
    END IF;
    IF wanted IS NULL THEN
        SELECT min(free.number) INTO taken FROM (
            SELECT bounds.first AS number
            UNION ALL
            SELECT n.number + 1 FROM pool_numbers n WHERE n.pool = take_number.pool AND n.number BETWEEN bounds.first AND bounds.last - 1) free
         WHERE NOT EXISTS (SELECT FROM pool_numbers t WHERE t.pool = take_number.pool AND t.number = free.number);
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
    INSERT INTO pool_numbers VALUES (pool, taken, take_number.kind, take_number.id);
    RETURN taken;
END $$;

-- Gives back all numbers of a resource. May be called again.
CREATE FUNCTION farrier.free_numbers(kind text, id bigint) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
    DELETE FROM pool_numbers n WHERE n.kind = $1 AND n.id = $2;
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
    PERFORM grant_kind_rights(k.relation) FROM kinds k;
    IF to_regrole('farrier_controller') IS NOT NULL THEN
        REVOKE INSERT, UPDATE, DELETE ON kinds, kind_states, kind_actions, callable FROM farrier_controller;
        REVOKE EXECUTE ON FUNCTION grant_rights(), grant_basic_rights(), grant_kind_rights(regclass), make_kind(text, regclass),
            let_call(text, text) FROM farrier_controller;
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
    FOR one IN SELECT c.* FROM callable c WHERE to_regrole(c.role_name) IS NOT NULL LOOP
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
