-- Registration, bootstrap tokens, agents and their tasks: the functions other services call.

CREATE FUNCTION farrier.digest(secret text) RETURNS bytea LANGUAGE sql IMMUTABLE
    RETURN sha256(convert_to(secret, 'UTF8'));
-- 244 random bits from the operating system, as 64 hexadecimal digits.
CREATE FUNCTION farrier.new_secret() RETURNS text LANGUAGE sql VOLATILE
    RETURN replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', '');

-- A bootstrap token: prefix, secret, and a checksum of both. `farrier.model.bootstrap` makes the same. Runs with the rights
-- of its caller, to whom `digest` is not granted.
CREATE FUNCTION farrier.bootstrap_token(secret text) RETURNS text LANGUAGE sql IMMUTABLE
    RETURN 'fbt_' || secret || left(encode(sha256(convert_to('fbt_' || secret, 'UTF8')), 'hex'), 8);
-- Refuses what is none, before anything is looked up, and does not repeat it.
CREATE FUNCTION farrier.check_bootstrap_token(token text) RETURNS void
    LANGUAGE plpgsql IMMUTABLE SET search_path = farrier, pg_temp AS $$
BEGIN
    IF token !~ '\A(fbt_)[0-9a-f]{72}\Z' OR token <> bootstrap_token(substr(token, 5, 64)) THEN
        RAISE EXCEPTION 'this is no bootstrap token: expected fbt_ and 72 hexadecimal digits whose last 8 are their checksum, got % characters',
            char_length(token) USING ERRCODE = 'FR400', HINT = 'It is cut or mistyped, or not farrier''s; farrier.issue_bootstrap makes one.';
    END IF;
END $$;

-- Refuses, with the other node's name, what another node has.
CREATE FUNCTION farrier.refuse_shared(address text, macs macaddr[]) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = farrier, pg_temp AS $$
DECLARE
    other text := bmc_holder(address, NULL);
    shared macaddr;
BEGIN
    IF other IS NOT NULL THEN
        RAISE EXCEPTION 'the BMC % belongs to node % already', address, other
            USING ERRCODE = 'unique_violation',
                  HINT = 'Nodes behind one BMC each give the path of their system: https://bmc/redfish/v1/Systems/2.';
    END IF;
    SELECT m.mac, n.name INTO shared, other FROM node_macs m JOIN nodes n ON n.id = m.node_id WHERE m.mac = ANY (macs) ORDER BY m.mac LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'the MAC address % belongs to node % already', shared, other
            USING ERRCODE = 'unique_violation', HINT = 'Correct the address, or delete the other node first.';
    END IF;
END $$;

-- Makes a node and puts it on the schedule. Nothing that writes to a BMC or to MAAS starts by itself: the onboarding
-- has no mode until somebody gives it one. With `bootstrap_token` the node waits for its agent instead.
CREATE FUNCTION farrier.register_node(
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
BEGIN
    IF bootstrap_token = '' THEN RAISE EXCEPTION 'a bootstrap token may not be empty' USING ERRCODE = 'FR400'; END IF;
    PERFORM check_ttl(bootstrap_ttl);
    IF bmc_address !~ '\A\S+\Z' OR bmc_credential !~ '\A\S+\Z' OR greatest(length(bmc_address), length(bmc_credential)) > 500 THEN
        RAISE EXCEPTION 'a BMC address or credential reference has 1 to 500 characters and no blanks' USING ERRCODE = 'FR400';
    END IF;
    PERFORM refuse_shared(register_node.bmc_address, register_node.macs::macaddr[]);
    INSERT INTO nodes (name, bmc_address, bmc_credential, labels, site, model, maas_id, agentless, auto_manage, status, management)
    VALUES (register_node.name, register_node.bmc_address, register_node.bmc_credential, register_node.labels, register_node.site,
            register_node.model, register_node.maas_id, register_node.agentless, register_node.auto_manage, first_status, first_management)
    RETURNING id INTO new_id;
    INSERT INTO node_macs (mac, node_id) SELECT DISTINCT m::macaddr, new_id FROM unnest(register_node.macs) m;
    IF bootstrap_token IS NULL THEN
        INSERT INTO node_onboardings (node_id) VALUES (new_id) RETURNING id INTO onboarding;
        UPDATE nodes SET live_workflow_kind = 'onboarding', live_workflow_id = onboarding WHERE id = new_id;
    ELSE
        INSERT INTO bootstrap_tokens (hash, node_id, expires_at) VALUES (digest(bootstrap_token), new_id, farrier.now() + bootstrap_ttl);
    END IF;
    INSERT INTO history (kind, id, version, layer, to_value, at, cause, reason, source, controller, claim_token)
    SELECT 'node', new_id, 1, l.layer, l.value, farrier.now(), 'register_node', 'registered', 'register_node',
           '00000000-0000-0000-0000-000000000000', 0
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
            PERFORM refuse_shared(register_node.bmc_address, register_node.macs::macaddr[]);
        END IF;
        IF violated = 'nodes_name' THEN
            RAISE EXCEPTION 'node % is registered already', register_node.name
                USING ERRCODE = 'unique_violation', HINT = 'A name is free again once its node is deleted.';
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

CREATE FUNCTION farrier.check_ttl(ttl interval) RETURNS void LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF ttl IS NULL OR ttl <= interval '0' OR ttl > interval '30 days' THEN
        RAISE EXCEPTION 'a token lives more than 0 and at most 30 days, not %', coalesce(ttl::text, 'null') USING ERRCODE = 'FR400';
    END IF;
END $$;

-- A new token for a node; earlier unused ones are worthless from now on. The token is shown here and never again.
CREATE FUNCTION farrier.issue_bootstrap(node text, ttl interval DEFAULT '72 hours') RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    target bigint := find_node(node);
    token text := bootstrap_token(new_secret());
BEGIN
    PERFORM check_ttl(ttl);
    PERFORM revoke_bootstrap(node);
    INSERT INTO bootstrap_tokens (hash, node_id, expires_at) VALUES (digest(token), target, farrier.now() + ttl);
    RETURN token;
END $$;

CREATE FUNCTION farrier.revoke_bootstrap(node text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    target bigint := find_node(node);
BEGIN
    UPDATE bootstrap_tokens SET revoked_at = farrier.now() WHERE node_id = target AND used_at IS NULL AND revoked_at IS NULL;
END $$;

-- The agent's first call: spends the token, returns the key for all later calls. The key is shown here and never again.
CREATE FUNCTION farrier.enroll_agent(token text, facts jsonb DEFAULT '{}', OUT node bigint, OUT agent_key text)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    t record;
BEGIN
    SELECT b.* INTO t FROM bootstrap_tokens b WHERE b.hash = digest(token) FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'unknown bootstrap token' USING ERRCODE = 'FR403', HINT = 'farrier.issue_bootstrap makes a new one.';
    ELSIF t.used_at IS NOT NULL THEN
        RAISE EXCEPTION 'this bootstrap token was used at %', t.used_at USING ERRCODE = 'FR403', HINT = 'A token works once; farrier.issue_bootstrap makes a new one.';
    ELSIF t.revoked_at IS NOT NULL THEN
        RAISE EXCEPTION 'this bootstrap token was revoked at %', t.revoked_at USING ERRCODE = 'FR403', HINT = 'farrier.issue_bootstrap makes a new one.';
    ELSIF t.expires_at <= farrier.now() THEN
        RAISE EXCEPTION 'this bootstrap token expired at %', t.expires_at USING ERRCODE = 'FR403', HINT = 'farrier.issue_bootstrap makes a new one.';
    ELSIF facts IS NULL OR octet_length(facts::text) > 65536 OR jsonb_typeof(facts) <> 'object' THEN
        RAISE EXCEPTION 'facts must be a JSON object of at most 64 KiB' USING ERRCODE = 'FR400';
    END IF;
    node := t.node_id;
    agent_key := new_secret();
    UPDATE bootstrap_tokens b SET used_at = farrier.now() WHERE b.hash = t.hash;
    INSERT INTO node_agents AS a (node_id, key_hash, facts) VALUES (t.node_id, digest(agent_key), enroll_agent.facts)
        ON CONFLICT (node_id) DO UPDATE SET key_hash = excluded.key_hash, facts = excluded.facts, enrolled_at = farrier.now(),
            last_heartbeat_at = NULL, health = '{}', ssh_seed_failures = 0;
    PERFORM enqueue('node', t.node_id);
END $$;

CREATE FUNCTION farrier.health_fault(health jsonb) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    alert jsonb;
BEGIN
    IF health IS NULL OR jsonb_typeof(health) <> 'object' THEN RETURN 'health must be a JSON object'; END IF;
    IF octet_length(health::text) > 65536 THEN RETURN 'health must be at most 64 KiB'; END IF;
    IF jsonb_typeof(coalesce(health -> 'ok', 'true')) <> 'boolean' THEN RETURN 'health.ok must be true or false'; END IF;
    IF coalesce(health -> 'ssh_seed', '"unknown"') NOT IN ('"ok"', '"failed"', '"unknown"') THEN RETURN 'health.ssh_seed must be ok, failed or unknown'; END IF;
    IF jsonb_typeof(coalesce(health -> 'alerts', '[]')) <> 'array' THEN RETURN 'health.alerts must be an array'; END IF;
    FOR alert IN SELECT jsonb_array_elements(coalesce(health -> 'alerts', '[]')) LOOP
        IF jsonb_typeof(alert) <> 'object' OR jsonb_typeof(alert -> 'id') IS DISTINCT FROM 'string'
           OR jsonb_typeof(coalesce(alert -> 'message', '""')) <> 'string'
           OR jsonb_typeof(coalesce(alert -> 'blocks_scheduling', 'false')) <> 'boolean' THEN
            RETURN 'each alert is {"id": text, "message": text, "blocks_scheduling": true or false}';
        END IF;
    END LOOP;
    RETURN NULL;
END $$;

-- One row update. The node runs at once only if the report changes something: the first one, another health, back after
-- a silence, or one of the three failed SSH seeds in a row that the handler counts to.
CREATE FUNCTION farrier.heartbeat(node text, health jsonb, agent_key text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    target bigint := find_node(node);
    fault text := health_fault(health);
    was record;
BEGIN
    IF fault IS NOT NULL THEN RAISE EXCEPTION '%', fault USING ERRCODE = 'FR400'; END IF;
    SELECT a.last_heartbeat_at, a.health, a.key_hash, a.ssh_seed_failures INTO was FROM node_agents a WHERE a.node_id = target FOR UPDATE;
    PERFORM check_agent_key(node, was.key_hash, agent_key);
    UPDATE node_agents a
       SET last_heartbeat_at = farrier.now(), health = heartbeat.health,
           ssh_seed_failures = CASE heartbeat.health ->> 'ssh_seed' WHEN 'failed' THEN a.ssh_seed_failures + 1 ELSE 0 END
     WHERE a.node_id = target;
    IF was.last_heartbeat_at IS NULL OR was.health IS DISTINCT FROM health
       OR (health ->> 'ssh_seed' = 'failed' AND was.ssh_seed_failures < 3)
       OR was.last_heartbeat_at < farrier.now() - make_interval(secs => setting('offline_after_seconds')::double precision) THEN
        PERFORM enqueue('node', target);
    END IF;
END $$;

-- The refusal of an agent that does not prove itself; `known` is the digest of its key, null where none has enrolled.
CREATE FUNCTION farrier.check_agent_key(node text, known bytea, agent_key text) RETURNS void
    LANGUAGE plpgsql IMMUTABLE SET search_path = farrier, pg_temp AS $$
BEGIN
    IF known IS NULL THEN
        RAISE EXCEPTION 'node % has no enrolled agent', node USING ERRCODE = 'FR403', HINT = 'farrier.enroll_agent comes first.';
    ELSIF known IS DISTINCT FROM digest(agent_key) THEN
        RAISE EXCEPTION 'wrong agent key for node %', node USING ERRCODE = 'FR403', HINT = 'The agent must enrol again with a new bootstrap token.';
    END IF;
END $$;

-- The node whose agent calls. Checked before any task is looked at.
CREATE FUNCTION farrier.prove_agent(node text, agent_key text) RETURNS bigint
    LANGUAGE plpgsql STABLE SET search_path = farrier, pg_temp AS $$
DECLARE
    target bigint := find_node(node);
BEGIN
    PERFORM check_agent_key(node, (SELECT a.key_hash FROM node_agents a WHERE a.node_id = target), agent_key);
    RETURN target;
END $$;

CREATE FUNCTION farrier.check_lease(lease interval) RETURNS void LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF lease IS NULL OR lease < interval '1 second' OR lease > interval '1 day' THEN
        RAISE EXCEPTION 'a lease is 1 second to 1 day, not %', coalesce(lease::text, 'null') USING ERRCODE = 'FR400';
    END IF;
END $$;

CREATE FUNCTION farrier.check_types(types text[]) RETURNS void LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF types IS NULL OR cardinality(types) > 64 OR EXISTS (SELECT FROM unnest(types) t WHERE char_length(t) > 64) THEN
        RAISE EXCEPTION 'expected at most 64 task types of at most 64 characters each'
            USING ERRCODE = 'FR400', HINT = $hint$Name the types, such as '{node.drain,node.uninstall}'.$hint$;
    END IF;
END $$;

-- Takes the oldest queued task of these types that `of_node` and `of_site` allow (null: any), for the named claimant.
-- Nodes that are paused start nothing.
CREATE FUNCTION farrier.take_task(claimant text, types text[], of_node bigint, of_site text, lease interval)
    RETURNS TABLE (task bigint, node_id bigint, node_name text, type text, params jsonb, attempt integer, lease_token uuid, lease_until timestamptz)
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM check_lease(lease);
    PERFORM check_types(types);
    RETURN QUERY
    WITH next AS (
        SELECT t.id, n.name FROM node_tasks t JOIN nodes n ON n.id = t.node_id
         WHERE t.status = 'queued' AND t.type = ANY (types) AND n.paused IS NULL
           AND (of_node IS NULL OR t.node_id = of_node) AND (of_site IS NULL OR n.site = of_site)
         ORDER BY t.id LIMIT 1 FOR UPDATE OF t SKIP LOCKED)
    UPDATE node_tasks t
       SET status = 'dispatched', claimed_by = claimant, lease_token = gen_random_uuid(),
           lease_until = farrier.now() + take_task.lease, dispatched_at = farrier.now()
      FROM next WHERE t.id = next.id
    RETURNING t.id, t.node_id, next.name, t.type, t.params, t.attempt, t.lease_token, t.lease_until;
END $$;

-- The refusal of a call for a task that is not the claimant's. Says what became of its own, and nothing of others.
CREATE FUNCTION farrier.refuse_lease(claimant text, task bigint) RETURNS void
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
DECLARE
    state text := (SELECT t.status FROM node_tasks t WHERE t.id = refuse_lease.task AND t.claimed_by = claimant);
BEGIN
    RAISE EXCEPTION 'this lease token is not, or no longer, that of task % (which is %)', task, coalesce(state, 'unknown')
        USING ERRCODE = 'FR410', HINT = 'The task was finished, cancelled or issued anew: stop the work and claim again.';
END $$;

-- Extends a lease. FR410: the task is no longer this claimant's, who must stop.
CREATE FUNCTION farrier.keep_task(claimant text, task bigint, lease_token uuid, lease interval) RETURNS timestamptz
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
DECLARE
    until timestamptz;
BEGIN
    PERFORM check_lease(lease);
    UPDATE node_tasks t SET lease_until = farrier.now() + keep_task.lease
     WHERE t.id = keep_task.task AND t.lease_token = keep_task.lease_token AND t.claimed_by = claimant AND t.status = 'dispatched'
    RETURNING t.lease_until INTO until;
    IF NOT FOUND THEN PERFORM refuse_lease(claimant, task); END IF;
    RETURN until;
END $$;

-- Whether this call was made before, and its reply lost.
CREATE FUNCTION farrier.is_ended_so(task bigint, lease_token uuid, succeeded boolean) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = farrier, pg_temp
    RETURN EXISTS (SELECT FROM farrier.node_tasks t WHERE t.id = task AND t.lease_token = is_ended_so.lease_token
                      AND t.status = CASE WHEN succeeded THEN 'succeeded' ELSE 'failed' END);

-- Ends a task and wakes its node.
CREATE FUNCTION farrier.end_task(claimant text, task bigint, lease_token uuid, succeeded boolean, result jsonb) RETURNS void
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
DECLARE
    owner bigint;
    fault text := json_fault(result, 65536);
BEGIN
    IF succeeded IS NULL THEN RAISE EXCEPTION 'succeeded must be true or false' USING ERRCODE = 'FR400'; END IF;
    IF fault IS NOT NULL THEN RAISE EXCEPTION 'the result %', fault USING ERRCODE = 'FR400'; END IF;
    UPDATE node_tasks t SET status = CASE WHEN succeeded THEN 'succeeded' ELSE 'failed' END, result = end_task.result, ended_at = farrier.now()
     WHERE t.id = end_task.task AND t.lease_token = end_task.lease_token AND t.claimed_by = claimant AND t.status = 'dispatched'
    RETURNING t.node_id INTO owner;
    IF NOT FOUND THEN PERFORM refuse_lease(claimant, task); END IF;
    PERFORM enqueue('node', owner);
END $$;

-- The calls of a node's agent: its own node's tasks, proven by its key. `claim_task` returns no row when there is none.
CREATE FUNCTION farrier.claim_task(node text, types text[], agent_key text, lease interval DEFAULT '60 seconds')
    RETURNS TABLE (task bigint, node_id bigint, node_name text, type text, params jsonb, attempt integer, lease_token uuid, lease_until timestamptz)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    target bigint := prove_agent(node, agent_key);
BEGIN
    RETURN QUERY SELECT * FROM take_task(agent_of(target), types, target, NULL, lease);
END $$;

CREATE FUNCTION farrier.renew_task(node text, task bigint, lease_token uuid, agent_key text, lease interval DEFAULT '60 seconds') RETURNS timestamptz
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    RETURN keep_task(agent_of(prove_agent(node, agent_key)), task, lease_token, lease);
END $$;

-- The same call again, after a lost reply, changes nothing and succeeds, though the task may have ended the agent.
CREATE FUNCTION farrier.finish_task(node text, task bigint, lease_token uuid, agent_key text, succeeded boolean, result jsonb DEFAULT NULL) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    IF NOT is_ended_so(task, lease_token, succeeded) THEN
        PERFORM end_task(agent_of(prove_agent(node, agent_key)), task, lease_token, succeeded, result);
    END IF;
END $$;

-- How an agent is named in its tasks and in history.
CREATE FUNCTION farrier.agent_of(node_id bigint) RETURNS text
    LANGUAGE sql STABLE SET search_path = farrier, pg_temp
    RETURN (SELECT 'agent of ' || n.name FROM farrier.nodes n WHERE n.id = node_id);
