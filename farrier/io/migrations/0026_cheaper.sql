-- What every wake, intent and commit does, at less cost. A function in SQL that looks into a table is planned anew by
-- each statement that calls it; one in PL/pgSQL is planned once for each connection.

-- The same names as before. A repetition with a count costs thirty times as much, and every update of a row looks at
-- it; what passes is ASCII, so its bytes are its characters. Validated at once: the tables are locked anyway, and
-- reading them is short.
ALTER TABLE farrier.nodes DROP CONSTRAINT node_name_form, ADD CONSTRAINT node_name_form CHECK (
    octet_length(name) <= 253 AND name ~ '^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$' AND name !~ '^[0-9]+$');
-- Tables of kinds have it from the first of these; those that others made keep what they have.
ALTER TABLE farrier.resources DROP CONSTRAINT resources_name_check, ADD CONSTRAINT resources_name_check CHECK (
    octet_length(name) <= 253 AND name ~ '^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$' AND name !~ '^[0-9]+$');
ALTER TABLE farrier.network_segments DROP CONSTRAINT resources_name_check, ADD CONSTRAINT resources_name_check CHECK (
    octet_length(name) <= 253 AND name ~ '^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$' AND name !~ '^[0-9]+$');
ALTER TABLE farrier.ib_partitions DROP CONSTRAINT resources_name_check, ADD CONSTRAINT resources_name_check CHECK (
    octet_length(name) <= 253 AND name ~ '^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$' AND name !~ '^[0-9]+$');

-- Volatile, so that it sees the rows that the running INSERT made before this one.
CREATE OR REPLACE FUNCTION farrier.is_first_wake() RETURNS boolean
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    RETURN NOT EXISTS (SELECT FROM wake_requests WHERE xact = pg_current_xact_id());
END $$;

-- The one way to make a resource's handler run as soon as possible. Takes effect at COMMIT; there, an id that is not
-- scheduled is an error (FR404). May be called any number of times.
CREATE OR REPLACE FUNCTION farrier.enqueue(kind text, id bigint) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    INSERT INTO wake_requests (kind, id) VALUES ($1, $2);
END $$;

CREATE OR REPLACE FUNCTION farrier.apply_wakes() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    kinds text[];
    ids bigint[];
    woken integer;
    missing record;
BEGIN
    SELECT array_agg(w.kind), array_agg(w.id) INTO kinds, ids
      FROM (SELECT DISTINCT r.kind, r.id FROM wake_requests r WHERE r.xact = pg_current_xact_id()) w;
    IF ids IS NULL THEN RETURN NULL; END IF;
    DELETE FROM wake_requests WHERE xact = pg_current_xact_id();
    -- Most transactions wake one, whose row the UPDATE locks: alone, it has no order to keep.
    IF cardinality(ids) = 1 THEN
        UPDATE schedule s
           SET wake_seq = s.wake_seq + 1,
               lane = CASE WHEN s.claim_token IS NULL THEN 0 ELSE s.lane END,
               due_at = CASE WHEN s.claim_token IS NOT NULL THEN s.due_at           -- its release will see wake_seq
                             WHEN s.lane = 0 THEN least(s.due_at, farrier.now())    -- keeps its place among the woken
                             ELSE farrier.now() END
         WHERE s.kind = kinds[1] AND s.id = ids[1];
    ELSE
        PERFORM FROM schedule s JOIN unnest(kinds, ids) w (kind, id) USING (kind, id)
          ORDER BY s.kind, s.id
            FOR NO KEY UPDATE OF s;
        UPDATE schedule s
           SET wake_seq = s.wake_seq + 1,
               lane = CASE WHEN s.claim_token IS NULL THEN 0 ELSE s.lane END,
               due_at = CASE WHEN s.claim_token IS NOT NULL THEN s.due_at
                             WHEN s.lane = 0 THEN least(s.due_at, farrier.now())
                             ELSE farrier.now() END
          FROM unnest(kinds, ids) w (kind, id)
         WHERE s.kind = w.kind AND s.id = w.id;
    END IF;
    GET DIAGNOSTICS woken = ROW_COUNT;
    IF woken < cardinality(ids) THEN
        SELECT w.kind, w.id INTO missing FROM unnest(kinds, ids) w (kind, id)
         WHERE NOT EXISTS (SELECT FROM schedule s WHERE s.kind = w.kind AND s.id = w.id)
         LIMIT 1;
        RAISE EXCEPTION 'no % with id % is scheduled: it was never registered, or has been deleted', missing.kind, missing.id
            USING ERRCODE = 'FR404', HINT = 'A deleted resource takes no requests; a new registration makes a new id.';
    END IF;
    PERFORM pg_notify('farrier_wake', w.kind) FROM (SELECT DISTINCT unnest(kinds) AS kind) w;
    RETURN NULL;
END $$;

CREATE OR REPLACE FUNCTION farrier.setting(name text) RETURNS numeric
    LANGUAGE plpgsql STABLE SET search_path = farrier, pg_temp AS $$
BEGIN
    RETURN (SELECT (s.value #>> '{}')::numeric FROM settings s WHERE s.name = $1);
END $$;

CREATE OR REPLACE FUNCTION farrier.validate_intent() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    spec record;
    fault text;
    api_min numeric := setting('api_min');
    api_max numeric := setting('api_max');
    asked integer := coalesce(NEW.api_version, api_min);
    first_id bigint;
BEGIN
    IF asked < api_min OR asked > api_max THEN
        RAISE EXCEPTION 'api_version % is not supported; this database takes % to %', asked, api_min, api_max
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

-- Tasks for agents, belonging to the node's live decommission. One that is live already is not made twice; looked for
-- before, because the index alone would wait for an agent that is just finishing it.
CREATE OR REPLACE FUNCTION farrier.write_tasks(changes jsonb) RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    UPDATE farrier.node_tasks t
       SET status = r.status, result = to_jsonb(r.result), ended_at = farrier.now()
      FROM jsonb_to_recordset(changes -> 'ends') r (task bigint, status text, result text)
     WHERE t.id = r.task AND t.status IN ('queued', 'dispatched');
    INSERT INTO farrier.node_tasks (node_id, workflow_id, type, status, params, attempt, failures, result, ended_at)
    SELECT n.id, n.live_workflow_id, r.type, coalesce(r.ended, 'queued'), r.params, r.attempt, r.failures,
           to_jsonb(r.result), CASE WHEN r.ended IS NOT NULL THEN farrier.now() END
      FROM jsonb_to_recordset(changes -> 'tasks')
           AS r (run bigint, type text, ended text, params jsonb, attempt integer, failures integer, result text)
      JOIN farrier.nodes n ON n.id = r.run
     WHERE r.ended IS NOT NULL
        OR NOT EXISTS (SELECT FROM farrier.node_tasks t
                        WHERE t.node_id = n.id AND t.type = r.type AND t.status IN ('queued', 'dispatched'))
        ON CONFLICT (node_id, type) WHERE status IN ('queued', 'dispatched') DO NOTHING;
END $$;

-- The answers of a commit, each found by its id, whatever the planner thinks. Between two ANALYZE it takes what is
-- pending for next to nothing, and in a storm every commit would walk over all of it: so the condition is one that the
-- index of what is pending does not serve.
CREATE FUNCTION farrier.answer_intents(answers jsonb) RETURNS void
    LANGUAGE plpgsql SET enable_seqscan = off SET enable_nestloop = off AS $$
BEGIN
    UPDATE farrier.intents i
       SET status = r.status, reason = nullif(r.reason, ''), answered_at = farrier.now()
      FROM jsonb_to_recordset(answers) r (intent bigint, status text, reason text)
     WHERE i.id = r.intent AND i.status || '' = 'pending'
       AND i.id = ANY (ARRAY(SELECT (a ->> 'intent')::bigint FROM jsonb_array_elements(answers) a));
END $$;

-- The nodes of a commit, and whatever else their runs leave. Workflows come first, because the node names the live one;
-- tasks end before new ones of their type begin, because only one may be live.
CREATE OR REPLACE FUNCTION farrier.write_nodes(changes jsonb) RETURNS TABLE (run bigint, due_in interval)
    LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    fit bigint[] := ARRAY(
        SELECT n.id FROM farrier.nodes n
          JOIN jsonb_to_recordset(changes -> 'runs') c (run bigint, version bigint) ON c.run = n.id AND c.version = n.version
         ORDER BY n.id FOR NO KEY UPDATE OF n);
    overtaken bigint[] := '{}';
BEGIN
    IF changes ? 'ends' THEN
        -- A task that ended meanwhile, or is being finished right now, makes its run be decided anew: waiting for its
        -- agent's COMMIT would deadlock, because that one waits for the schedule row to wake it.
        WITH asked AS (
            SELECT c.run, c.task FROM jsonb_to_recordset(changes -> 'ends') c (run bigint, task bigint)
        ), free AS MATERIALIZED (
            SELECT t.id FROM farrier.node_tasks t
             WHERE t.id IN (SELECT a.task FROM asked a) AND t.status IN ('queued', 'dispatched')
             ORDER BY t.id FOR NO KEY UPDATE SKIP LOCKED
        )
        SELECT coalesce(array_agg(DISTINCT a.run), '{}') INTO overtaken
          FROM asked a WHERE NOT EXISTS (SELECT FROM free f WHERE f.id = a.task);
    END IF;
    IF changes ? 'logins' THEN
        overtaken := overtaken || farrier.over_login_cap(changes -> 'logins');
    END IF;
    IF changes ? 'leaving' THEN
        overtaken := overtaken || farrier.held_by_brakes(changes -> 'leaving', ARRAY(SELECT f FROM unnest(fit) f WHERE f <> ALL (overtaken)));
    END IF;
    IF cardinality(fit) < jsonb_array_length(changes -> 'runs') OR overtaken <> '{}' THEN
        RETURN QUERY SELECT c.run, CASE WHEN c.run = ANY (fit) THEN interval '1 second' ELSE interval '0' END
                       FROM jsonb_to_recordset(changes -> 'runs') c (run bigint)
                      WHERE c.run <> ALL (fit) OR c.run = ANY (overtaken);
        changes := farrier.of_runs(changes, ARRAY(SELECT f FROM unnest(fit) f WHERE f <> ALL (overtaken)));
    END IF;

    IF changes ? 'nodes' THEN
        IF changes ?| '{new_onboardings,new_decommissions,onboardings,decommissions}' THEN
            PERFORM farrier.write_workflows(changes);
        END IF;
        UPDATE farrier.nodes n
           SET version = n.version + 1,
               status = r.status,
               status_entered_at = CASE WHEN n.status = r.status THEN n.status_entered_at ELSE farrier.now() END,
               management = r.management,
               management_entered_at = CASE WHEN n.management = r.management THEN n.management_entered_at ELSE farrier.now() END,
               bmc_address = r.bmc_address,
               bmc_credential = r.bmc_credential,
               bmc = r.bmc,
               -- A replica of the release before does not send these: what it leaves out stays as it is.
               maas_id = CASE WHEN r.maas_created IS NULL THEN n.maas_id ELSE r.maas_id END,
               maas_created = coalesce(r.maas_created, n.maas_created),
               quarantine = r.quarantine,
               paused = r.paused,
               ever_onboarded = r.ever_onboarded,
               ever_active = r.ever_active,
               not_scrubbed = r.not_scrubbed,
               deleting = r.deleting,
               redeploying = coalesce(r.redeploying, n.redeploying),
               live_workflow_kind = r.live_workflow_kind,
               -- Looked up, not believed: the row just written or inserted.
               live_workflow_id = CASE r.live_workflow_kind
                   WHEN 'onboarding' THEN (SELECT o.id FROM farrier.node_onboardings o
                                            WHERE o.node_id = n.id AND o.status NOT IN ('completed', 'cancelled', 'reconciled'))
                   WHEN 'decommission' THEN (SELECT d.id FROM farrier.node_decommissions d
                                              WHERE d.node_id = n.id AND d.status NOT IN ('completed', 'cancelled', 'reconciled'))
               END
          FROM jsonb_populate_recordset(NULL::farrier.nodes, changes -> 'nodes') r
         WHERE n.id = r.id;
    END IF;
    IF changes ? 'details' THEN
        PERFORM farrier.write_details(changes -> 'details');
    END IF;
    IF changes ? 'new_decommissions' THEN
        PERFORM farrier.inherit_tasks(changes -> 'new_decommissions');
    END IF;
    IF changes ? 'ends' OR changes ? 'tasks' THEN
        PERFORM farrier.write_tasks(changes);
    END IF;
    IF changes ? 'answers' THEN
        PERFORM farrier.answer_intents(changes -> 'answers');
        PERFORM pg_notify('farrier_intent_answered', '');  -- once per commit: equal ones are told once
    END IF;
    IF changes ? 'revoked' THEN  -- unused bootstrap tokens are worthless from now on
        UPDATE farrier.bootstrap_tokens t SET revoked_at = farrier.now()
          FROM jsonb_to_recordset(changes -> 'revoked') c (run bigint)
         WHERE t.node_id = c.run AND t.used_at IS NULL AND t.revoked_at IS NULL;
    END IF;
    IF changes ? 'tokens' THEN  -- earlier unused ones are worthless; the same one again begins its time anew, unless it was used
        UPDATE farrier.bootstrap_tokens t SET revoked_at = farrier.now()
          FROM jsonb_to_recordset(changes -> 'tokens') c (run bigint, digest text)
         WHERE t.node_id = c.run AND t.used_at IS NULL AND t.revoked_at IS NULL AND t.hash <> decode(c.digest, 'hex');
        INSERT INTO farrier.bootstrap_tokens (hash, node_id, expires_at)
        SELECT decode(c.digest, 'hex'), c.run, farrier.now() + make_interval(secs => c.seconds)
          FROM jsonb_to_recordset(changes -> 'tokens') c (run bigint, digest text, seconds double precision)
            ON CONFLICT (hash) DO UPDATE SET expires_at = excluded.expires_at, revoked_at = NULL
             WHERE bootstrap_tokens.used_at IS NULL AND bootstrap_tokens.node_id = excluded.node_id;
    END IF;
    IF changes ? 'forgotten' THEN  -- the agents' keys open nothing any more
        DELETE FROM farrier.node_agents a USING jsonb_to_recordset(changes -> 'forgotten') c (run bigint) WHERE a.node_id = c.run;
    END IF;
END $$;

-- Commits runs of one kind, each whole or not at all, and gives their schedule rows back. `writer` names the kind's own
-- function (jsonb) RETURNS TABLE (run bigint, due_in interval): it writes states and whatever else runs leave, and answers
-- the runs of which it wrote nothing because what they were decided on has changed. A lane that is null takes the row off
-- the schedule; `steps` 1 counts a rerun, 0 leaves the count, null ends it. Verdicts: committed, conflict, lost, locked.
-- With a `next_token`, rows of counted reruns are `kept`: claimed under it by the same controller for `next_lease`.
CREATE OR REPLACE FUNCTION farrier.commit_runs(
    of_kind text, controller uuid, patient boolean, writer text, changes jsonb,
    ids bigint[], tokens bigint[], lanes smallint[], delays interval[], steps smallint[], keys integer[],
    moved bigint[], versions bigint[], layers text[], from_values text[], to_values text[], entered timestamptz[],
    causes text[], reasons text[], sources text[], move_tokens bigint[],
    told bigint[], outcomes text[],
    next_token bigint DEFAULT NULL, next_lease interval DEFAULT NULL)
    RETURNS TABLE (id bigint, verdict text, woken boolean, kept boolean, outcome_key integer, reruns smallint)
    LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    locked bigint[];
    won bigint[];
    failed_runs bigint[];
    failed_dues interval[];
    all_won boolean;
    unused text;
BEGIN
    -- What a run writes besides its own rows may be held by anybody, and many runs wait together.
    unused := set_config('lock_timeout', '1s', true);  -- PERFORM would make it a query
    IF patient THEN
        PERFORM FROM farrier.schedule s WHERE s.kind = of_kind AND s.id = ANY (ids) ORDER BY s.id FOR NO KEY UPDATE;
    END IF;
    IF cardinality(ids) = 1 THEN
        SELECT ARRAY[s.id], CASE WHEN s.claim_token = tokens[1] THEN ARRAY[s.id] END INTO locked, won
          FROM farrier.schedule s WHERE s.kind = of_kind AND s.id = ids[1] FOR NO KEY UPDATE SKIP LOCKED;
    ELSE
        SELECT array_agg(l.id), array_agg(l.id) FILTER (WHERE l.claim_token = r.token) INTO locked, won
          FROM (SELECT s.id, s.claim_token FROM farrier.schedule s
                 WHERE s.kind = of_kind AND s.id = ANY (ids) ORDER BY s.id FOR NO KEY UPDATE SKIP LOCKED) l
          JOIN unnest(ids, tokens) r (id, token) USING (id);
    END IF;
    IF coalesce(cardinality(won), 0) < cardinality(ids) THEN
        RETURN QUERY SELECT r.id, CASE WHEN patient OR r.id = ANY (locked) THEN 'lost' ELSE 'locked' END,
                            false, false, NULL::integer, NULL::smallint
                       FROM unnest(ids) r (id) WHERE won IS NULL OR r.id <> ALL (won);
        IF won IS NULL THEN RETURN; END IF;
        changes := farrier.of_runs(changes, won);
    END IF;

    IF changes <> '{}' THEN
        -- Nearly all commits are of nodes. A text is parsed and planned on each call: a tenth of what one run takes.
        IF writer = 'farrier.write_nodes_and_networks' THEN
            SELECT array_agg(w.run), array_agg(w.due_in) INTO failed_runs, failed_dues
              FROM farrier.write_nodes_and_networks(changes) w;
        ELSE
            EXECUTE format('SELECT array_agg(w.run), array_agg(w.due_in) FROM %s($1) w', writer::regproc)
               INTO failed_runs, failed_dues USING changes;
        END IF;
        IF failed_runs IS NOT NULL THEN
            RETURN QUERY
            UPDATE farrier.schedule s
               SET owner = NULL, claim_token = NULL, claimed_wake_seq = NULL, lane = 0,
                   due_at = farrier.now() + CASE WHEN s.wake_seq = s.claimed_wake_seq THEN f.due_in ELSE '0' END
              FROM unnest(failed_runs, failed_dues) f (run, due_in)
             WHERE s.kind = of_kind AND s.id = f.run
            RETURNING s.id, 'conflict', f.due_in <= interval '0' OR s.due_at <= farrier.now(), false, s.outcome_key, s.reruns;
            won := ARRAY(SELECT w FROM unnest(won) w WHERE w <> ALL (failed_runs));
        END IF;
    END IF;
    all_won := cardinality(won) = cardinality(ids);

    IF cardinality(moved) > 0 THEN
        INSERT INTO farrier.history (kind, id, version, layer, from_value, to_value, at, seconds_in_source, cause, reason, source, controller, claim_token)
        SELECT of_kind, r.id, r.version, r.layer, r.from_value, r.to_value, farrier.now(),
               CASE WHEN r.entered IS NOT NULL THEN extract(epoch FROM greatest(farrier.now() - r.entered, '0')) END, r.cause, r.reason, r.source, commit_runs.controller, r.token
          FROM unnest(moved, versions, layers, from_values, to_values, entered, causes, reasons, sources, move_tokens)
               AS r (id, version, layer, from_value, to_value, entered, cause, reason, source, token)
         WHERE all_won OR r.id = ANY (won);
    END IF;
    IF cardinality(told) > 0 THEN
        INSERT INTO farrier.outcomes AS o (kind, id, at, outcome)
        SELECT of_kind, r.id, farrier.now(), r.outcome::jsonb FROM unnest(told, commit_runs.outcomes) AS r (id, outcome)
         WHERE all_won OR r.id = ANY (won)
            ON CONFLICT (kind, id) DO UPDATE SET at = excluded.at, outcome = excluded.outcome;
    END IF;

    -- Row by row through the key, and then by ctid, as a release. What goes on at once is claimed here: whatever woke it until
    -- now is seen by the load that follows.
    RETURN QUERY
    WITH ours AS MATERIALIZED (
        SELECT s.place, r.lane, r.delay, r.step, r.outcome_key, coalesce(r.step = 1, false) AND next_token IS NOT NULL AS keep
          FROM unnest(ids, lanes, delays, steps, keys) AS r (id, lane, delay, step, outcome_key)
         CROSS JOIN LATERAL (SELECT ctid AS place FROM farrier.schedule WHERE kind = of_kind AND id = r.id) s
         WHERE r.lane IS NOT NULL AND (all_won OR r.id = ANY (won))
    )
    UPDATE farrier.schedule s
       SET owner = CASE WHEN ours.keep THEN controller END,
           claim_token = CASE WHEN ours.keep THEN next_token END,
           claimed_wake_seq = CASE WHEN ours.keep THEN s.wake_seq END,
           outcome_key = coalesce(ours.outcome_key, s.outcome_key),
           reruns = coalesce(s.reruns + ours.step, 0),
           lane = CASE WHEN s.wake_seq = s.claimed_wake_seq THEN ours.lane ELSE 0 END,
           due_at = farrier.now() + CASE WHEN ours.keep THEN next_lease
                                         WHEN s.wake_seq = s.claimed_wake_seq THEN ours.delay
                                         ELSE interval '0' END
      FROM ours
     WHERE s.ctid = ours.place
    RETURNING s.id, 'committed', s.lane = 0 AND NOT ours.keep, ours.keep, s.outcome_key, s.reruns;
    -- Off the schedule, unless a wake came in: then the row stays for one more run.
    IF array_position(lanes, NULL) IS NOT NULL THEN
        RETURN QUERY
        WITH ended AS (
            SELECT r.id FROM unnest(ids, lanes) r (id, lane) WHERE r.lane IS NULL AND (all_won OR r.id = ANY (won))
        ), gone AS (
            DELETE FROM farrier.schedule s USING ended
             WHERE s.kind = of_kind AND s.id = ended.id AND s.wake_seq = s.claimed_wake_seq
            RETURNING s.id
        ), woken AS (
            UPDATE farrier.schedule s
               SET owner = NULL, claim_token = NULL, claimed_wake_seq = NULL, lane = 0, due_at = farrier.now()
              FROM ended
             WHERE s.kind = of_kind AND s.id = ended.id AND s.wake_seq <> s.claimed_wake_seq
            RETURNING s.id
        )
        SELECT g.id, 'committed', false, false, NULL::integer, NULL::smallint FROM gone g
        UNION ALL SELECT w.id, 'committed', true, false, NULL::integer, NULL::smallint FROM woken w;
    END IF;
    -- Here, and not when the answer is on its way: what they refuse was never committed.
    SET CONSTRAINTS ALL IMMEDIATE;
END $$;

SELECT farrier.grant_rights();
