-- What clients may store: nothing that a reader of it could choke on, and each refusal says what came and what is allowed.

-- What is wrong with JSON that is to be stored; null for nothing. Whoever reads it walks it level by level and turns its
-- numbers into floats. What is short has room for neither fault, so most calls end there.
CREATE FUNCTION farrier.json_fault(value jsonb, most integer) RETURNS text
    LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    size integer := octet_length(value::text);
BEGIN
    IF size > most THEN RETURN format('is %s bytes; %s is the most', size, most); END IF;
    IF size > 128 AND jsonb_path_exists(value, 'strict $.**{64} ? (@.type() == "array" || @.type() == "object")') THEN
        RETURN 'is nested more than 64 levels deep';
    END IF;
    IF size > 308 AND jsonb_path_exists(value, 'strict $.** ? (@ > 1e308 || @ < -1e308)') THEN
        RETURN 'has a number beyond -1e308 or 1e308';
    END IF;
    RETURN NULL;
END $$;

-- One parameter against its rule; the text of what is wrong with it, or null. A rule may bring the text for what does not
-- match its pattern.
CREATE OR REPLACE FUNCTION farrier.param_fault(rule jsonb, value jsonb) RETURNS text
    LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    given text := value #>> '{}';
BEGIN
    IF rule IS NULL THEN RETURN 'is unknown'; END IF;
    IF rule ->> 'type' = 'boolean' THEN
        RETURN CASE WHEN jsonb_typeof(value) <> 'boolean' THEN 'must be true or false' END;
    END IF;
    IF rule ->> 'type' = 'object' THEN
        RETURN CASE WHEN jsonb_typeof(value) <> 'object' THEN 'must be a JSON object' END;
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
        RETURN CASE WHEN rule ? 'fault' THEN rule ->> 'fault'
                    WHEN rule ->> 'pattern' IN ('\S', '\A\S+\Z') THEN 'is blank or has blanks in it'
                    WHEN rule ->> 'pattern' = '.' THEN 'is empty'
                    ELSE format('does not match %s', rule ->> 'pattern') END;
    END IF;
    RETURN NULL;
END $$;

-- Refuses a version of the API that this database does not speak; without one there is nothing to refuse.
CREATE FUNCTION farrier.refuse_version(api_version integer) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = farrier, pg_temp AS $$
DECLARE
    api_min integer := setting('api_min');
    api_max integer := setting('api_max');
BEGIN
    IF api_version > api_max THEN
        RAISE EXCEPTION 'api_version % is not supported; this database takes % to %', api_version, api_min, api_max
            USING ERRCODE = 'FR406', HINT = format('The client is newer than this database, which speaks version %s at most: '
                'upgrade farrier and its schema (farrier db migrate), or ask with api_version %1$s.', api_max);
    ELSIF api_version < api_min THEN
        RAISE EXCEPTION 'api_version % is not supported; this database takes % to %', api_version, api_min, api_max
            USING ERRCODE = 'FR406', HINT = format('The client is older than this database: upgrade it, or ask with api_version %s.', api_min);
    END IF;
END $$;

-- The INSERT of an intent as it has to be written for a version.
CREATE FUNCTION farrier.insert_with_version(intent farrier.intents, api_version integer) RETURNS text
    LANGUAGE sql IMMUTABLE SET search_path = farrier, pg_temp AS $$
    SELECT format('INSERT INTO farrier.intents (%s) VALUES (%s);',
                  string_agg(c.name, ', ' ORDER BY c.place), string_agg(c.written, ', ' ORDER BY c.place))
      FROM (VALUES (1, 'node', quote_literal(intent.node)), (2, 'action', quote_literal(intent.action)),
                   (3, 'params', CASE WHEN intent.params <> '{}' THEN quote_literal(intent.params::text) END),
                   (4, 'idempotency_key', quote_literal(intent.idempotency_key)),
                   (5, 'requested_by', quote_literal(intent.requested_by)),
                   (6, 'api_version', api_version::text)) AS c (place, name, written)
     WHERE c.written IS NOT NULL
$$;

CREATE OR REPLACE FUNCTION farrier.validate_intent() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    spec record;
    fault text;
    asked integer := coalesce(NEW.api_version, setting('api_min'));
    first_id bigint;
BEGIN
    PERFORM refuse_version(NEW.api_version);
    SELECT a.since, a.params INTO spec FROM actions a WHERE a.action = NEW.action;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'unknown action %', coalesce(quote_literal(NEW.action), 'null')
            USING ERRCODE = 'FR400', HINT = (SELECT 'Known: ' || string_agg(a.action, ', ' ORDER BY a.action) FROM actions a);
    END IF;
    -- Before the hint, which repeats all of it.
    IF octet_length(NEW.params::text) > 16384 THEN
        RAISE EXCEPTION 'params are % bytes; 16384 is the most', octet_length(NEW.params::text) USING ERRCODE = 'FR400';
    END IF;
    IF char_length(NEW.idempotency_key) > 255 OR char_length(NEW.requested_by) > 255 THEN
        RAISE EXCEPTION '% is longer than 255 characters',
            CASE WHEN char_length(NEW.idempotency_key) > 255 THEN 'idempotency_key' ELSE 'requested_by' END USING ERRCODE = 'FR400';
    END IF;
    IF spec.since > asked THEN
        RAISE EXCEPTION 'action % needs api_version % or later; this intent has %', NEW.action, spec.since,
            coalesce(NEW.api_version::text, format('none, which means %s', asked))
            USING ERRCODE = 'FR406', HINT = insert_with_version(NEW, spec.since);
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

-- The one way to make a resource's handler run as soon as possible. Takes effect at COMMIT; there, an id that is not
-- scheduled is an error (FR404). May be called any number of times.
CREATE OR REPLACE FUNCTION farrier.enqueue(kind text, id bigint) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    IF char_length(kind) > 40 THEN
        RAISE EXCEPTION 'a kind has at most 40 characters; got %', char_length(kind)
            USING ERRCODE = 'FR400', HINT = 'SELECT kind FROM farrier.kinds lists those besides node and maas_region.';
    END IF;
    IF kind IS NULL OR id IS NULL THEN
        RAISE EXCEPTION 'a kind and an id were expected; got % and %', coalesce(quote_literal(kind), 'null'), coalesce(id::text, 'null')
            USING ERRCODE = 'FR400';
    END IF;
    INSERT INTO wake_requests (kind, id) VALUES ($1, $2);
END $$;

-- Addresses of network cards from text.
CREATE FUNCTION farrier.read_macs(macs text[]) RETURNS macaddr[]
    LANGUAGE plpgsql STABLE SET search_path = farrier, pg_temp AS $$
BEGIN
    IF array_position(macs, NULL) IS NOT NULL THEN
        RAISE EXCEPTION 'macs: null is no MAC address' USING ERRCODE = 'FR400', HINT = 'Leave it out; a node may have none.';
    END IF;
    RETURN macs::macaddr[];
EXCEPTION WHEN data_exception THEN
    RAISE EXCEPTION 'macs: %', left(SQLERRM, 200)
        USING ERRCODE = 'FR400', HINT = 'A MAC address is six bytes in hexadecimal digits: 02:00:00:00:00:01.';
END $$;

-- Refuses what no node may be registered with. A BMC's address and credential obey the rules of `set_bmc`; the site those of
-- names of sites' files.
CREATE FUNCTION farrier.refuse_details(bmc_address text, bmc_credential text, labels jsonb, site text, model text) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = farrier, pg_temp AS $$
DECLARE
    rules jsonb := (SELECT a.params -> 'fields' FROM actions a WHERE a.action = 'set_bmc');
    fault text := coalesce('bmc_address ' || param_fault(rules -> 'address', to_jsonb(bmc_address)),
                           'bmc_credential ' || param_fault(rules -> 'credential', to_jsonb(bmc_credential)),
                           'labels ' || json_fault(labels, 16384));
BEGIN
    IF fault IS NOT NULL THEN RAISE EXCEPTION '%', fault USING ERRCODE = 'FR400'; END IF;
    IF site !~ '\A[A-Za-z0-9][A-Za-z0-9._-]*\Z' OR char_length(site) > 63 THEN
        RAISE EXCEPTION 'site % is not usable: 1 to 63 letters, digits, dots, dashes and underscores, the first a letter or digit',
            quote_literal(left(site, 80)) USING ERRCODE = 'FR400', HINT = 'It is the name of the site''s file, without .toml.';
    END IF;
    IF char_length(model) NOT BETWEEN 1 AND 100 OR model ~ '[\u0001-\u001f\u007f-\u009f]' THEN
        RAISE EXCEPTION 'model % is not usable: 1 to 100 characters, of which none is a control character', quote_literal(left(model, 120))
            USING ERRCODE = 'FR400';
    END IF;
END $$;

-- Makes a node and puts it on the schedule. Nothing that writes to a BMC or to MAAS starts by itself: the onboarding
-- has no mode until a client gives it one. With `bootstrap_token` the node waits for its agent instead. All versions
-- of the API register alike so far; without `api_version` it is the newest.
CREATE OR REPLACE FUNCTION farrier.register_node(
    name text, bmc_address text DEFAULT NULL, bmc_credential text DEFAULT NULL, macs text[] DEFAULT '{}',
    labels jsonb DEFAULT '{}', site text DEFAULT NULL, model text DEFAULT NULL, maas_id text DEFAULT NULL,
    agentless boolean DEFAULT false, auto_manage boolean DEFAULT true, bootstrap_token text DEFAULT NULL,
    bootstrap_ttl interval DEFAULT '72 hours', api_version integer DEFAULT NULL) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    new_id bigint;
    first_status text := CASE WHEN bootstrap_token IS NULL THEN 'enrolling' ELSE 'bootstrap_issued' END;
    first_management text := CASE WHEN bmc_address IS NULL AND bmc_credential IS NULL THEN 'unmanaged' ELSE 'enroll' END;
    onboarding bigint;
    violated text;
    addresses macaddr[] := read_macs(macs);
    other text;
BEGIN
    PERFORM check_bootstrap_token(bootstrap_token);
    PERFORM check_ttl(bootstrap_ttl);
    PERFORM refuse_version(register_node.api_version);
    PERFORM refuse_details(register_node.bmc_address, register_node.bmc_credential, register_node.labels, register_node.site, register_node.model);
    PERFORM refuse_shared(register_node.bmc_address, addresses);
    INSERT INTO nodes (name, bmc_address, bmc_credential, labels, site, model, maas_id, agentless, auto_manage, status, management)
    VALUES (register_node.name, register_node.bmc_address, register_node.bmc_credential, register_node.labels, register_node.site,
            register_node.model, register_node.maas_id, register_node.agentless, register_node.auto_manage, first_status, first_management)
    RETURNING id INTO new_id;
    INSERT INTO node_macs (mac, node_id) SELECT DISTINCT m, new_id FROM unnest(addresses) m;
    IF bootstrap_token IS NULL THEN
        INSERT INTO node_onboardings (node_id) VALUES (new_id) RETURNING id INTO onboarding;
        UPDATE nodes SET live_workflow_kind = 'onboarding', live_workflow_id = onboarding WHERE id = new_id;
    ELSE
        INSERT INTO bootstrap_tokens (hash, node_id, expires_at) VALUES (digest(bootstrap_token), new_id, farrier.now() + bootstrap_ttl);
    END IF;
    PERFORM record_beginning('node', new_id, 1, l.layer, l.value, 'register_node', 'registered by ' || session_user)
       FROM (VALUES ('status', first_status), ('management', first_management), ('onboarding', CASE WHEN onboarding IS NOT NULL THEN 'pending' END))
           AS l (layer, value)
     WHERE l.value IS NOT NULL;
    PERFORM schedule_new('node', new_id);
    RETURN new_id;
EXCEPTION
    WHEN unique_violation OR exclusion_violation THEN
        GET STACKED DIAGNOSTICS violated = CONSTRAINT_NAME;
        -- Somebody registered the same at the same moment, and by now it can be seen whose it is.
        IF violated IN ('node_bmcs_one', 'node_macs_pkey') THEN
            PERFORM refuse_shared(register_node.bmc_address, addresses);
        END IF;
        IF violated = 'nodes_name' THEN
            RAISE EXCEPTION 'node % is registered already', register_node.name
                USING ERRCODE = 'unique_violation', HINT = 'A name is free again once its node is deleted.';
        ELSIF violated = 'nodes_maas' THEN
            SELECT n.name INTO other FROM nodes n
             WHERE n.site IS NOT DISTINCT FROM register_node.site AND n.maas_id = register_node.maas_id AND n.status <> 'deleted';
            RAISE EXCEPTION 'another node has this MAAS id in this site: %', coalesce(other, 'it was just registered')
                USING ERRCODE = 'unique_violation', HINT = 'Give each node its own MAAS id, or delete the other node first.';
        ELSIF violated = 'bootstrap_tokens_pkey' THEN
            RAISE EXCEPTION 'the bootstrap token of % was given before; each is good for one node, once', register_node.name
                USING ERRCODE = 'unique_violation';
        END IF;
        RAISE;
    WHEN check_violation OR not_null_violation THEN
        GET STACKED DIAGNOSTICS violated = CONSTRAINT_NAME;
        IF violated = 'node_name_form' OR register_node.name IS NULL THEN
            RAISE EXCEPTION 'node name % is not usable: letters, digits, dots, dashes and underscores, not digits alone, 253 at most',
                coalesce(quote_literal(register_node.name), 'null') USING ERRCODE = 'FR400';
        END IF;
        RAISE EXCEPTION 'node %: %', register_node.name, SQLERRM
            USING ERRCODE = 'FR400', HINT = 'labels is a JSON object; agentless and auto_manage are true or false.';
END $$;

-- The agent's first call: spends the token, returns the key for all later calls. The key is shown here and never again.
CREATE OR REPLACE FUNCTION farrier.enroll_agent(token text, facts jsonb DEFAULT '{}', OUT node bigint, OUT agent_key text)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    t record;
    fault text := json_fault(facts, 65536);
BEGIN
    PERFORM check_bootstrap_token(token);
    SELECT b.* INTO t FROM bootstrap_tokens b WHERE b.hash = digest(token) FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'unknown bootstrap token' USING ERRCODE = 'FR403', HINT = 'farrier.issue_bootstrap makes a new one.';
    ELSIF t.used_at IS NOT NULL THEN
        RAISE EXCEPTION 'this bootstrap token was used at %', t.used_at USING ERRCODE = 'FR403', HINT = 'A token works once; farrier.issue_bootstrap makes a new one.';
    ELSIF t.revoked_at IS NOT NULL THEN
        RAISE EXCEPTION 'this bootstrap token was revoked at %', t.revoked_at USING ERRCODE = 'FR403', HINT = 'farrier.issue_bootstrap makes a new one.';
    ELSIF t.expires_at <= farrier.now() THEN
        RAISE EXCEPTION 'this bootstrap token expired at %', t.expires_at USING ERRCODE = 'FR403', HINT = 'farrier.issue_bootstrap makes a new one.';
    ELSIF facts IS NULL OR jsonb_typeof(facts) <> 'object' THEN
        RAISE EXCEPTION 'facts must be a JSON object of at most 64 KiB'
            USING ERRCODE = 'FR400', HINT = 'Leave facts out, or send an object such as {"kernel": "6.8"}.';
    ELSIF fault IS NOT NULL THEN
        RAISE EXCEPTION 'facts must be a JSON object of at most 64 KiB; this one %', fault
            USING ERRCODE = 'FR400', HINT = 'Send what identifies the system, and no logs.';
    END IF;
    node := t.node_id;
    agent_key := new_secret();
    UPDATE bootstrap_tokens b SET used_at = farrier.now() WHERE b.hash = t.hash;
    INSERT INTO node_agents AS a (node_id, key_hash, facts) VALUES (t.node_id, digest(agent_key), enroll_agent.facts)
        ON CONFLICT (node_id) DO UPDATE SET key_hash = excluded.key_hash, facts = excluded.facts, enrolled_at = farrier.now(),
            last_heartbeat_at = NULL, health = '{}', ssh_seed_failures = 0;
    PERFORM enqueue('node', t.node_id);
END $$;

-- One row update. The node runs at once only if the report changes something: the first one, another health, back after
-- a silence, or one of the three failed SSH seeds in a row that the handler counts to.
CREATE OR REPLACE FUNCTION farrier.heartbeat(node text, health jsonb, agent_key text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    target bigint := find_node(node);
    fault text := health_fault(health);
    was record;
    changed boolean;
BEGIN
    IF fault IS NOT NULL THEN RAISE EXCEPTION '%', fault USING ERRCODE = 'FR400'; END IF;
    SELECT a.last_heartbeat_at, a.health, a.key_hash, a.ssh_seed_failures INTO was FROM node_agents a WHERE a.node_id = target FOR UPDATE;
    PERFORM check_agent_key(node, was.key_hash, agent_key);
    -- What is the same as before was looked at before.
    changed := was.health IS DISTINCT FROM health;
    IF changed THEN
        fault := json_fault(health, 65536);
        IF fault IS NOT NULL THEN RAISE EXCEPTION 'health %', fault USING ERRCODE = 'FR400'; END IF;
    END IF;
    UPDATE node_agents a
       SET last_heartbeat_at = farrier.now(), health = heartbeat.health,
           ssh_seed_failures = CASE heartbeat.health ->> 'ssh_seed' WHEN 'failed' THEN a.ssh_seed_failures + 1 ELSE 0 END
     WHERE a.node_id = target;
    IF was.last_heartbeat_at IS NULL OR changed
       OR (health ->> 'ssh_seed' = 'failed' AND was.ssh_seed_failures < 3)
       OR was.last_heartbeat_at < farrier.now() - make_interval(secs => setting('offline_after_seconds')::double precision) THEN
        PERFORM enqueue('node', target);
    END IF;
END $$;
-- What was stored before this was looked at: the agent's next report says it anew, or is refused.
UPDATE farrier.node_agents SET health = '{}' WHERE farrier.json_fault(health, 65536) IS NOT NULL;

SELECT farrier.grant_rights();
