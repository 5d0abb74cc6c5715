-- What MAAS regions tell us of nodes' machines, and what workflows have to remember of what they did there.

-- One row for each site that has a region: a resource of its own, so exactly one replica observes it. How often it is to
-- be looked at is copied from the site's file, because what is due is found here.
CREATE TABLE farrier.maas_regions (
    id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    site             text        NOT NULL UNIQUE,
    url              text        NOT NULL DEFAULT '',
    motion_every     interval    NOT NULL DEFAULT '30 seconds',
    sweep_every      interval    NOT NULL DEFAULT '30 minutes' CHECK (sweep_every > interval '0'),
    version          bigint      NOT NULL DEFAULT 1,
    state            text        NOT NULL DEFAULT 'starting',
    state_entered_at timestamptz NOT NULL DEFAULT farrier.now(),
    username         text,                 -- whom our key belongs to
    identified_at    timestamptz,          -- when that was asked
    cursor           jsonb       NOT NULL DEFAULT '{}',  -- how far its events were read
    complete_at      timestamptz,          -- until when every event is known
    swept_at         timestamptz,          -- when machines were last read only because it was their turn
    last_error       text,
    failure          text,
    failures         integer     NOT NULL DEFAULT 0,
    next_try_at      timestamptz,
    unreadable       jsonb       NOT NULL DEFAULT '{}',  -- machines that it cannot tell of, and when to ask again
    since            timestamptz,          -- what was read earlier is another region's, or was judged by another user's key
    created_at       timestamptz NOT NULL DEFAULT farrier.now()
) WITH (fillfactor = 50);

-- The last word on the machine of each node that has one. There from the moment the node has a machine; read_at is null
-- until it was read. Written by observers alone. `since` is the first reading that showed this state, `read_at` the last;
-- `stale_since` says that something happened after it that is not in it, `lost_at` when a machine that was there was not
-- there any more although no decommission was at it.
CREATE TABLE farrier.node_observations (
    node_id     bigint      NOT NULL REFERENCES farrier.nodes,
    source      text        NOT NULL CHECK (source = 'maas'),
    site        text        NOT NULL,
    system_id   text        NOT NULL,
    state       text,
    since       timestamptz,
    read_at     timestamptz,
    stale_since timestamptz,
    lost_at     timestamptz,
    detail      jsonb       NOT NULL DEFAULT '{}',
    PRIMARY KEY (node_id, source),
    CONSTRAINT read_whole CHECK ((read_at IS NULL) = (state IS NULL) AND (read_at IS NULL) = (since IS NULL))
) WITH (fillfactor = 70);
CREATE INDEX node_observations_machine ON farrier.node_observations (site, system_id);
CREATE INDEX node_observations_turn ON farrier.node_observations (site, read_at);
CREATE INDEX node_observations_stale ON farrier.node_observations (site, stale_since) WHERE stale_since IS NOT NULL;
CREATE INDEX node_observations_undeployed ON farrier.node_observations (site, read_at) WHERE state <> 'deployed';

ALTER TABLE farrier.nodes
    ADD maas_created boolean NOT NULL DEFAULT false,  -- its machine in MAAS was made by us
    ADD redeploying  boolean NOT NULL DEFAULT false;  -- a reimage ended; the onboarding that follows has not begun
-- `mark` is what a workflow's requests are recognised by in MAAS. Ids begin anew with each database, and several may use
-- one region: only what nobody can guess proves that a request was ours.
ALTER TABLE farrier.node_onboardings
    ADD upstream jsonb NOT NULL DEFAULT '{}',
    ADD mark text NOT NULL DEFAULT left(replace(gen_random_uuid()::text, '-', ''), 16);
ALTER TABLE farrier.node_decommissions
    ADD upstream jsonb NOT NULL DEFAULT '{}',
    ADD mark text NOT NULL DEFAULT left(replace(gen_random_uuid()::text, '-', ''), 16);

-- What is known of a node's machine in MAAS, as its handler sees it; null for nothing. `ours` is null while nobody knows
-- whom our key belongs to.
CREATE FUNCTION farrier.maas_observation(node_id bigint, system_id text, site text) RETURNS jsonb
    LANGUAGE sql STABLE
    RETURN (SELECT o.detail || jsonb_build_object(
                       'system_id', o.system_id, 'state', o.state, 'since', o.since, 'read_at', o.read_at,
                       'fresh_at', CASE WHEN o.stale_since IS NULL THEN greatest(o.read_at, r.complete_at) ELSE o.read_at END,
                       'ours', CASE WHEN r.username IS NOT NULL THEN coalesce(o.detail ->> 'owner' = r.username, false) END)
              FROM farrier.node_observations o LEFT JOIN farrier.maas_regions r ON r.site = $3
             WHERE o.node_id = $1 AND o.source = 'maas' AND o.system_id = $2
               AND o.read_at >= coalesce(r.since, '-infinity'));

-- A region has no machine of another form, and each that is asked for costs it a request. Ids that were registered before
-- stay as they are.
CREATE FUNCTION farrier.refuse_machine_id() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'maas_id % is no system id of MAAS', quote_literal(left(NEW.maas_id, 64))
        USING ERRCODE = 'FR400', HINT = 'It has letters and digits alone, mostly six; the host name is something else.';
END $$;
CREATE TRIGGER refuse_machine_id BEFORE INSERT ON farrier.nodes
    FOR EACH ROW WHEN (NEW.maas_id !~ '^[A-Za-z0-9]{1,64}$') EXECUTE FUNCTION farrier.refuse_machine_id();

-- A node that gets a machine, or another one, has it unread; a node without one has nothing that was observed.
CREATE FUNCTION farrier.watch_machine() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    IF NEW.maas_id IS NULL OR NEW.site IS NULL OR NEW.status = 'deleted' THEN
        DELETE FROM node_observations o WHERE o.node_id = NEW.id AND o.source = 'maas';
    ELSE
        INSERT INTO node_observations AS o (node_id, source, site, system_id, stale_since)
        VALUES (NEW.id, 'maas', NEW.site, NEW.maas_id, farrier.now())
            ON CONFLICT (node_id, source) DO UPDATE
               SET site = excluded.site, system_id = excluded.system_id, stale_since = excluded.stale_since,
                   state = NULL, since = NULL, read_at = NULL, lost_at = NULL, detail = '{}';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER watch_machine_insert AFTER INSERT ON farrier.nodes
    FOR EACH ROW WHEN (NEW.maas_id IS NOT NULL) EXECUTE FUNCTION farrier.watch_machine();
CREATE TRIGGER watch_machine AFTER UPDATE ON farrier.nodes
    FOR EACH ROW WHEN (OLD.maas_id IS DISTINCT FROM NEW.maas_id OR OLD.site IS DISTINCT FROM NEW.site
                       OR (NEW.status = 'deleted' AND OLD.status <> 'deleted'))
    EXECUTE FUNCTION farrier.watch_machine();
INSERT INTO farrier.node_observations (node_id, source, site, system_id, stale_since)
SELECT n.id, 'maas', n.site, n.maas_id, farrier.now() FROM farrier.nodes n
 WHERE n.maas_id IS NOT NULL AND n.site IS NOT NULL AND n.status <> 'deleted';

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
    IF cardinality(fit) < jsonb_array_length(changes -> 'runs') OR overtaken <> '{}' THEN
        RETURN QUERY SELECT c.run, CASE WHEN c.run = ANY (fit) THEN interval '1 second' ELSE interval '0' END
                       FROM jsonb_to_recordset(changes -> 'runs') c (run bigint)
                      WHERE c.run <> ALL (fit) OR c.run = ANY (overtaken);
        changes := farrier.of_runs(changes, ARRAY(SELECT f FROM unnest(fit) f WHERE f <> ALL (overtaken)));
    END IF;

    IF changes ? 'nodes' THEN
        PERFORM farrier.write_workflows(changes);
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
    IF changes ? 'gone' THEN  -- a deleted node's network addresses may be registered again
        DELETE FROM farrier.node_macs m USING jsonb_to_recordset(changes -> 'gone') c (run bigint) WHERE m.node_id = c.run;
    END IF;
    IF changes ? 'ends' OR changes ? 'tasks' THEN
        PERFORM farrier.write_tasks(changes);
    END IF;
    IF changes ? 'answers' THEN
        UPDATE farrier.intents i
           SET status = r.status, reason = nullif(r.reason, ''), answered_at = farrier.now()
          FROM jsonb_to_recordset(changes -> 'answers') r (intent bigint, status text, reason text)
         WHERE i.id = r.intent AND i.status = 'pending';
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

-- Workflows that begin in this commit, and those that go on or end. A clock starts anew only when its value changes.
CREATE OR REPLACE FUNCTION farrier.write_workflows(changes jsonb) RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    IF changes ? 'new_onboardings' THEN
        INSERT INTO farrier.node_onboardings (node_id, mode, status, stage, attempt, next_attempt_at, mode_given_at, options, upstream, skipped)
        SELECT r.node_id, r.mode, r.status, r.stage, r.attempt, r.next_attempt_at, r.mode_given_at, r.options, coalesce(r.upstream, '{}'), r.skipped
          FROM jsonb_populate_recordset(NULL::farrier.node_onboardings, changes -> 'new_onboardings') r;
    END IF;
    IF changes ? 'new_decommissions' THEN
        INSERT INTO farrier.node_decommissions (node_id, mode, status, stage, attempt, next_attempt_at, mode_given_at, options, upstream, skipped)
        SELECT r.node_id, r.mode, r.status, r.stage, r.attempt, r.next_attempt_at, r.mode_given_at, r.options, coalesce(r.upstream, '{}'), r.skipped
          FROM jsonb_populate_recordset(NULL::farrier.node_decommissions, changes -> 'new_decommissions') r;
    END IF;
    IF changes ? 'onboardings' THEN
        UPDATE farrier.node_onboardings w
           SET mode = r.mode, status = r.status, stage = r.stage, attempt = r.attempt, next_attempt_at = r.next_attempt_at,
               status_entered_at = CASE WHEN w.status = r.status THEN w.status_entered_at ELSE farrier.now() END,
               stage_entered_at = CASE WHEN w.stage IS NOT DISTINCT FROM r.stage THEN w.stage_entered_at ELSE farrier.now() END,
               failure_class = r.failure_class, failure_detail = r.failure_detail, stop_requested = r.stop_requested,
               after_undo = r.after_undo, mode_given_at = r.mode_given_at, options = r.options, upstream = coalesce(r.upstream, w.upstream), skipped = r.skipped,
               ended_at = CASE WHEN r.status IN ('completed', 'cancelled', 'reconciled') THEN farrier.now() END
          FROM jsonb_populate_recordset(NULL::farrier.node_onboardings, changes -> 'onboardings') r
         WHERE w.id = r.id;
    END IF;
    IF changes ? 'decommissions' THEN
        UPDATE farrier.node_decommissions w
           SET mode = r.mode, status = r.status, stage = r.stage, attempt = r.attempt, next_attempt_at = r.next_attempt_at,
               status_entered_at = CASE WHEN w.status = r.status THEN w.status_entered_at ELSE farrier.now() END,
               stage_entered_at = CASE WHEN w.stage IS NOT DISTINCT FROM r.stage THEN w.stage_entered_at ELSE farrier.now() END,
               failure_class = r.failure_class, failure_detail = r.failure_detail, stop_requested = r.stop_requested,
               after_undo = r.after_undo, mode_given_at = r.mode_given_at, options = r.options, upstream = coalesce(r.upstream, w.upstream), skipped = r.skipped,
               ended_at = CASE WHEN r.status IN ('completed', 'cancelled', 'reconciled') THEN farrier.now() END
          FROM jsonb_populate_recordset(NULL::farrier.node_decommissions, changes -> 'decommissions') r
         WHERE w.id = r.id;
    END IF;
END $$;

-- What a person is shown of one node: also what MAAS last said of its machine.
CREATE OR REPLACE VIEW farrier.node_lifecycle AS
SELECT n.id, n.name, n.status, n.status_entered_at,
       CASE WHEN n.status <> 'deleted' THEN n.management END AS management,
       CASE WHEN n.status <> 'deleted' THEN n.management_entered_at END AS management_entered_at,
       n.bmc_address, n.bmc ->> 'last_error' AS bmc_last_error, n.bmc ->> 'failure' AS bmc_failure, CASE WHEN n.bmc ? 'power_at' THEN n.bmc ->> 'power' END AS power,
       (n.bmc ->> 'power_at')::timestamptz AS power_at, CASE WHEN n.management = 'manageable' THEN n.bmc ->> 'sync_failure' END AS power_failure, n.bmc ->> 'desired_power' AS desired_power,
       w.kind AS workflow, w.id AS workflow_id, w.mode, w.status AS workflow_status, w.status_entered_at AS workflow_status_entered_at,
       w.stage, w.stage_entered_at, w.attempt, w.next_attempt_at, w.failure_class, w.failure_detail,
       coalesce(adv.action, qa.action, ba.action,
           CASE WHEN n.management = 'manageable' AND n.bmc ? 'enforce_error' AND n.bmc ->> 'desired_power' <> n.bmc ->> 'power'
             THEN 'switch it ' || (n.bmc ->> 'desired_power') || ' at the machine or its BMC, or set_power without enforce to end it'
           END) AS recommended_action,
       o.outcome AS last_outcome, o.at AS last_outcome_at, s.due_at AS next_run_at,
       n.paused, n.quarantine, n.version,
       n.maas_id, m.state AS maas_state, m.detail ->> 'status_name' AS maas_status_name, m.read_at AS maas_read_at,
       sc.state_limit AS status_limit, sc.above_since AS status_above_since,
       mc.state_limit AS management_limit, mc.above_since AS management_above_since,
       wc.state_limit AS workflow_limit, wc.above_since AS workflow_above_since,
       ec.since AS end_to_end_since, ec.state_limit AS end_to_end_limit, ec.above_since AS end_to_end_above_since,
       a.last_heartbeat_at, a.health -> 'alerts' AS health_alerts
  FROM farrier.nodes n
  LEFT JOIN LATERAL (
       SELECT 'onboarding' AS kind, x.* FROM farrier.node_onboardings x WHERE x.node_id = n.id
       UNION ALL
       SELECT 'decommission', x.* FROM farrier.node_decommissions x WHERE x.node_id = n.id
       ORDER BY created_at DESC, id DESC LIMIT 1) w ON true
  LEFT JOIN farrier.advice adv ON adv.failure = w.failure_class AND w.status IN ('failed_retryable', 'failed_manual_intervention')
  LEFT JOIN farrier.advice qa ON n.status = 'quarantined' AND qa.failure = 'quarantine:' || (n.quarantine ->> 'cause')
  LEFT JOIN farrier.advice ba ON ba.failure = 'bmc:' || coalesce(
       n.bmc ->> 'failure', CASE WHEN n.management = 'manageable' THEN n.bmc ->> 'sync_failure' END)
  LEFT JOIN farrier.outcomes o ON o.kind = 'node' AND o.id = n.id
  LEFT JOIN farrier.schedule s ON s.kind = 'node' AND s.id = n.id
  LEFT JOIN farrier.node_observations m ON m.node_id = n.id AND m.source = 'maas' AND m.system_id = n.maas_id
  LEFT JOIN farrier.node_agents a ON a.node_id = n.id
  LEFT JOIN farrier.node_clocks sc ON sc.node_id = n.id AND sc.kind = 'node'
  LEFT JOIN farrier.node_clocks mc ON mc.node_id = n.id AND mc.kind = 'management'
  LEFT JOIN farrier.node_clocks wc ON wc.node_id = n.id AND wc.kind = n.live_workflow_kind AND wc.state <> 'end_to_end'
  LEFT JOIN farrier.node_clocks ec ON ec.node_id = n.id AND ec.kind = n.live_workflow_kind AND ec.state = 'end_to_end';

-- The same rights, and what regions say may be read by whoever reads nodes.
CREATE OR REPLACE FUNCTION farrier.grant_rights() RETURNS void LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
DECLARE
    role_name text;
BEGIN
    REVOKE ALL ON ALL TABLES IN SCHEMA farrier FROM PUBLIC;
    REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA farrier FROM PUBLIC;
    FOR role_name IN SELECT rolname FROM pg_roles
                      WHERE rolname IN ('farrier_controller', 'farrier_intents', 'farrier_agent', 'farrier_worker', 'farrier_reader') LOOP
        EXECUTE format('GRANT USAGE ON SCHEMA farrier TO %I', role_name);
        EXECUTE format('GRANT EXECUTE ON FUNCTION farrier.now(), farrier.api_version() TO %I', role_name);
    END LOOP;
    IF to_regrole('farrier_controller') IS NOT NULL THEN
        GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA farrier TO farrier_controller;
        -- What the model says is for migrations to write; what happened stays as it was.
        REVOKE INSERT, UPDATE, DELETE ON schema_migrations, edges, initial_values, workflow_mapping, actions, advice
            FROM farrier_controller;
        REVOKE INSERT, UPDATE, DELETE ON history, locks, migrator FROM farrier_controller;
        REVOKE INSERT, UPDATE, DELETE ON node_bmcs, bmc_logins, workers FROM farrier_controller;
        GRANT USAGE ON ALL SEQUENCES IN SCHEMA farrier TO farrier_controller;
        GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA farrier TO farrier_controller;
        REVOKE EXECUTE ON FUNCTION grant_rights() FROM farrier_controller;
    END IF;
    IF to_regrole('farrier_intents') IS NOT NULL THEN
        GRANT INSERT (node, action, params, idempotency_key, requested_by, api_version) ON intents TO farrier_intents;
        GRANT SELECT ON intents, node_inventory, node_lifecycle, node_clocks, brakes_holding TO farrier_intents;
        GRANT EXECUTE ON FUNCTION intent(text, text, jsonb, text, text, integer), enqueue(text, bigint),
            register_node(text, text, text, text[], jsonb, text, text, text, boolean, boolean, text, interval, integer),
            issue_bootstrap(text, interval), revoke_bootstrap(text), bootstrap_token(text) TO farrier_intents;
    END IF;
    IF to_regrole('farrier_agent') IS NOT NULL THEN
        GRANT EXECUTE ON FUNCTION enroll_agent(text, jsonb), heartbeat(text, jsonb, text), claim_task(text, text[], text, interval),
            renew_task(text, bigint, uuid, text, interval), finish_task(text, bigint, uuid, text, boolean, jsonb) TO farrier_agent;
    END IF;
    IF to_regrole('farrier_reader') IS NOT NULL THEN
        GRANT SELECT ON node_inventory, node_lifecycle, node_clocks, idle_enrolling, limits, brakes_holding, departures, brake_lifts, intents, history, outcomes, edges, actions, advice,
            nodes, node_onboardings, node_decommissions, workers, node_observations, maas_regions TO farrier_reader;
        -- But for the tokens of leases, which are for those who hold them.
        GRANT SELECT (kind, id, lane, reruns, due_at, wake_seq, claimed_wake_seq, owner, outcome_key) ON schedule TO farrier_reader;
        GRANT SELECT (id, node_id, workflow_id, type, status, params, attempt, failures, claimed_by, lease_until, result, created_at, dispatched_at, ended_at)
            ON node_tasks TO farrier_reader;
    END IF;
END $$;

SELECT farrier.grant_rights();
