-- What others may see, and what each role may do. Roles are made beforehand (`farrier db roles`); a role that is missing
-- gets its rights from `farrier db roles` later, which runs grant_rights() again.

CREATE TABLE farrier.advice (
    failure text PRIMARY KEY,
    action  text NOT NULL
);

CREATE VIEW farrier.node_inventory AS
SELECT n.id, n.name, n.site, n.model, n.labels, n.status, n.status_entered_at, n.management,
       n.status = 'active' AND n.paused IS NULL AS schedulable,
       n.management = 'unmanaged' AS unmanaged,
       n.paused ->> 'reason' AS paused,
       CASE WHEN n.status = 'quarantined' THEN n.quarantine ->> 'cause' END AS quarantine_cause,
       CASE WHEN n.status = 'quarantined' THEN n.quarantine ->> 'reason' END AS quarantine_reason,
       a.last_heartbeat_at, n.created_at
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
                      WHERE rolname IN ('farrier_controller', 'farrier_intents', 'farrier_agent', 'farrier_reader') LOOP
        EXECUTE format('GRANT USAGE ON SCHEMA farrier TO %I', role_name);
        EXECUTE format('GRANT EXECUTE ON FUNCTION farrier.now(), farrier.api_version(), farrier.setting(text) TO %I', role_name);
    END LOOP;
    IF to_regrole('farrier_controller') IS NOT NULL THEN
        GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA farrier TO farrier_controller;
        -- What the model says is for migrations to write; what happened stays as it was.
        REVOKE INSERT, UPDATE, DELETE ON schema_migrations, edges, initial_values, workflow_mapping, actions, advice
            FROM farrier_controller;
        REVOKE UPDATE ON history FROM farrier_controller;
        REVOKE INSERT, UPDATE, DELETE ON node_bmcs, bmc_logins FROM farrier_controller;
        GRANT USAGE ON ALL SEQUENCES IN SCHEMA farrier TO farrier_controller;
        GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA farrier TO farrier_controller;
        REVOKE EXECUTE ON FUNCTION grant_rights() FROM farrier_controller;
    END IF;
    IF to_regrole('farrier_intents') IS NOT NULL THEN
        GRANT INSERT (node, action, params, idempotency_key, requested_by, api_version) ON intents TO farrier_intents;
        GRANT SELECT ON intents, node_inventory, node_lifecycle TO farrier_intents;
        GRANT EXECUTE ON FUNCTION intent(text, text, jsonb, text, text, integer), enqueue(text, bigint),
            register_node(text, text, text, text[], jsonb, text, text, text, boolean, boolean, text, interval),
            issue_bootstrap(text, interval), revoke_bootstrap(text) TO farrier_intents;
    END IF;
    IF to_regrole('farrier_agent') IS NOT NULL THEN
        GRANT EXECUTE ON FUNCTION enroll_agent(text, jsonb), heartbeat(text, jsonb, text), claim_task(text, text[], text, interval),
            renew_task(bigint, uuid, interval), finish_task(bigint, uuid, boolean, jsonb) TO farrier_agent;
    END IF;
    IF to_regrole('farrier_reader') IS NOT NULL THEN
        GRANT SELECT ON node_inventory, node_lifecycle, intents, history, outcomes, schedule, edges, actions, advice,
            nodes, node_onboardings, node_decommissions, node_tasks TO farrier_reader;
    END IF;
END $$;
SELECT farrier.grant_rights();
