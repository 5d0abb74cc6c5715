-- What others may see, and what each role may do. Roles are made beforehand (`farrier db roles`); a role that is missing
-- gets its rights from `farrier db roles` later, which runs grant_rights() again.

CREATE TABLE farrier.advice (
    failure text PRIMARY KEY,
    action  text NOT NULL
);

-- How long a node may stay in a state: the limits in force. The substate of a running workflow is its stage; state end_to_end is
-- the clock of a whole workflow. Scope '' is for all nodes, 'model' and 'site' for those of that name; a site's limit comes first.
-- The migration writes the defaults, each controller that starts writes those of its settings.
CREATE TABLE farrier.limits (
    kind     text     NOT NULL,
    state    text     NOT NULL,
    substate text     NOT NULL,
    scope    text     NOT NULL CHECK (scope IN ('', 'model', 'site')),
    name     text     NOT NULL,
    lasts    interval NOT NULL,
    PRIMARY KEY (kind, state, substate, scope, name)
);

-- Enrolling nodes whose clock of that status stands still: nothing was asked for yet, or an operator decides next.
CREATE VIEW farrier.idle_enrolling AS
SELECT n.id
  FROM farrier.nodes n
  LEFT JOIN farrier.node_onboardings live ON n.live_workflow_kind = 'onboarding' AND live.id = n.live_workflow_id
  LEFT JOIN LATERAL (
       SELECT o.status FROM farrier.node_onboardings o WHERE o.node_id = n.id ORDER BY o.id DESC LIMIT 1) newest ON true
 WHERE n.status = 'enrolling'
   AND (n.management IN ('unmanaged', 'enroll', 'error') OR live.id IS NOT NULL AND live.mode IS NULL
        OR newest.status IN ('cancelled', 'failed_manual_intervention'));

-- The clocks of nodes that have a limit; above_since is null while the limit is kept. A clock that stands still is not listed.
CREATE VIEW farrier.node_clocks AS
SELECT c.node_id, c.kind, c.state, c.substate, c.since, l.lasts AS state_limit,
       CASE WHEN c.since + l.lasts < farrier.now() THEN c.since + l.lasts END AS above_since
  FROM (SELECT n.id AS node_id, 'node' AS kind, n.status AS state, '' AS substate, n.status_entered_at AS since, n.site, n.model
          FROM farrier.nodes n WHERE NOT EXISTS (SELECT FROM farrier.idle_enrolling i WHERE i.id = n.id)
        UNION ALL
        SELECT n.id, 'management', n.management, '', n.management_entered_at, n.site, n.model
          FROM farrier.nodes n
         WHERE n.status <> 'deleted' AND (n.management <> 'enroll' OR n.bmc ->> 'asked_at' IS NOT NULL)
        UNION ALL
        SELECT n.id, w.kind, c.state, c.substate, c.since, n.site, n.model
          FROM farrier.nodes n
          JOIN LATERAL (
               SELECT 'onboarding' AS kind, o.status, o.stage, o.status_entered_at, o.stage_entered_at, o.mode_given_at
                 FROM farrier.node_onboardings o
                WHERE n.live_workflow_kind = 'onboarding' AND o.id = n.live_workflow_id AND o.mode IS NOT NULL
               UNION ALL
               SELECT 'decommission', d.status, d.stage, d.status_entered_at, d.stage_entered_at, d.mode_given_at
                 FROM farrier.node_decommissions d
                WHERE n.live_workflow_kind = 'decommission' AND d.id = n.live_workflow_id) w ON true
         CROSS JOIN LATERAL (VALUES
               (w.status, CASE w.status WHEN 'running' THEN coalesce(w.stage, '') ELSE '' END,
                CASE w.status WHEN 'running' THEN w.stage_entered_at ELSE w.status_entered_at END),
               ('end_to_end', '', w.mode_given_at)) AS c (state, substate, since)) c
 CROSS JOIN LATERAL (
       SELECT x.lasts FROM farrier.limits x
        WHERE x.kind = c.kind AND x.state = c.state AND x.substate = c.substate
          AND (x.scope = '' OR x.scope = 'site' AND x.name = c.site OR x.scope = 'model' AND x.name = c.model)
        ORDER BY x.scope DESC LIMIT 1) l;

-- Nodes that silence or drift took out of service, or would have but for the brake (`held`). A held node tries again, so its row
-- stays young for as long as something speaks against it. The site is '' for nodes without one.
CREATE TABLE farrier.departures (
    site text        NOT NULL,
    node bigint      NOT NULL,
    at   timestamptz NOT NULL,
    held boolean     NOT NULL,
    PRIMARY KEY (site, node)
);

-- One row a site that nodes were about to leave: the lock under which they are counted, and what was counted last.
CREATE TABLE farrier.brakes (
    site       text PRIMARY KEY,
    in_service integer     NOT NULL DEFAULT 0,
    counted_at timestamptz,
    since      timestamptz    -- the first refusal of this time
);

-- An operator let the moves of a site go on; the newest row of a site counts.
CREATE TABLE farrier.brake_lifts (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    site         text        NOT NULL,
    until        timestamptz NOT NULL,
    reason       text        NOT NULL,
    requested_by text        NOT NULL,
    at           timestamptz NOT NULL DEFAULT farrier.now()
);
CREATE INDEX brake_lifts_newest ON farrier.brake_lifts (site, id);

-- Sites whose brake holds nodes in service now: how many it holds, and how many would leave with them.
CREATE VIEW farrier.brakes_holding AS
SELECT b.site, b.since, d.held, d.leaving, b.in_service
  FROM farrier.brakes b
 CROSS JOIN LATERAL (
       SELECT count(*) FILTER (WHERE x.held) AS held, count(*) AS leaving
         FROM farrier.departures x
        WHERE x.site = b.site AND x.at > farrier.now() - make_interval(secs => coalesce((
           SELECT (s.value #>> '{}')::double precision FROM farrier.settings s WHERE s.name = 'brake_window_seconds'), 600))) d
 WHERE d.held > 0
   AND NOT coalesce((SELECT l.until > farrier.now() FROM farrier.brake_lifts l WHERE l.site = b.site ORDER BY l.id DESC LIMIT 1), false);

-- For schedulers: the coarse status and its clock, no workflow and no stage.
CREATE VIEW farrier.node_inventory AS
SELECT n.id, n.name, n.site, n.model, n.labels, n.status, n.status_entered_at, n.management,
       n.status = 'active' AND n.paused IS NULL AS schedulable,
       n.management = 'unmanaged' AS unmanaged,
       n.paused ->> 'reason' AS paused,
       CASE WHEN n.status = 'quarantined' THEN n.quarantine ->> 'cause' END AS quarantine_cause,
       CASE WHEN n.status = 'quarantined' THEN n.quarantine ->> 'reason' END AS quarantine_reason,
       a.last_heartbeat_at, n.created_at,
       -- Subqueries, because one that is not selected costs nothing.
       (SELECT c.state_limit FROM farrier.node_clocks c WHERE c.node_id = n.id AND c.kind = 'node') AS status_limit,
       (SELECT c.above_since FROM farrier.node_clocks c WHERE c.node_id = n.id AND c.kind = 'node') AS status_above_since
  FROM farrier.nodes n LEFT JOIN farrier.node_agents a ON a.node_id = n.id
 WHERE n.status <> 'deleted';

CREATE VIEW farrier.node_lifecycle AS
SELECT n.id, n.name, n.status, n.status_entered_at, n.management, n.management_entered_at,
       n.bmc_address, n.bmc ->> 'last_error' AS bmc_last_error, n.bmc ->> 'failure' AS bmc_failure, n.bmc ->> 'power' AS power,
       (n.bmc ->> 'power_at')::timestamptz AS power_at, CASE WHEN n.management = 'manageable' THEN n.bmc ->> 'sync_failure' END AS power_failure, n.bmc ->> 'desired_power' AS desired_power,
       w.kind AS workflow, w.id AS workflow_id, w.mode, w.status AS workflow_status, w.status_entered_at AS workflow_status_entered_at,
       w.stage, w.stage_entered_at, w.attempt, w.next_attempt_at, w.failure_class, w.failure_detail,
       coalesce(adv.action, qa.action, ba.action) AS recommended_action,
       o.outcome AS last_outcome, o.at AS last_outcome_at, s.due_at AS next_run_at,
       n.paused, n.quarantine, n.version
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
  LEFT JOIN farrier.schedule s ON s.kind = 'node' AND s.id = n.id;

CREATE FUNCTION farrier.grant_rights() RETURNS void LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
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
        GRANT SELECT ON intents, node_inventory, node_lifecycle TO farrier_intents;
        GRANT EXECUTE ON FUNCTION intent(text, text, jsonb, text, text, integer), enqueue(text, bigint),
            register_node(text, text, text, text[], jsonb, text, text, text, boolean, boolean, text, interval, integer),
            issue_bootstrap(text, interval), revoke_bootstrap(text) TO farrier_intents;
    END IF;
    IF to_regrole('farrier_agent') IS NOT NULL THEN
        GRANT EXECUTE ON FUNCTION enroll_agent(text, jsonb), heartbeat(text, jsonb, text), claim_task(text, text[], text, interval),
            renew_task(text, bigint, uuid, text, interval), finish_task(text, bigint, uuid, text, boolean, jsonb) TO farrier_agent;
    END IF;
    IF to_regrole('farrier_reader') IS NOT NULL THEN
        GRANT SELECT ON node_inventory, node_lifecycle, intents, history, outcomes, edges, actions, advice,
            nodes, node_onboardings, node_decommissions, workers TO farrier_reader;
    END IF;
END $$;
SELECT farrier.grant_rights();
