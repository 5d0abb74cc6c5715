-- What makes a table a kind, how its resources are read and written, and how a kind is forgotten.

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
    PERFORM record_beginning(TG_ARGV[0], NEW.id, NEW.version, 'state', NEW.state,
        coalesce('intent ' || nullif(current_setting('farrier.created_for', true), ''), 'created'),
        'created by ' || coalesce(nullif(current_setting('farrier.created_by', true), ''), session_user));
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
