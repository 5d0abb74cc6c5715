-- One row for each node, deleted ones included, for operators: all layers with their clocks, the newest workflow, what ends the
-- wait of the node (a person, a second reading, or the wait itself), the outcome of the last run, and the last reports of MAAS and the agent. power_at is the time of the last
-- stored reading of the power. While power_failure is null, the last reading may be later: an unchanged reading is
-- stored only every node.confirmed_every. stage_limit and stage_above_since are of the clock of the stage, which retries do
-- not restart; those of the workflow are of its status, and null while it runs.
CREATE OR REPLACE VIEW farrier.node_lifecycle AS
SELECT n.id, n.name, n.status, n.status_entered_at,
       CASE WHEN n.status <> 'deleted' THEN n.management END AS management,
       CASE WHEN n.status <> 'deleted' THEN n.management_entered_at END AS management_entered_at,
       n.bmc_address, n.bmc ->> 'last_error' AS bmc_last_error, n.bmc ->> 'failure' AS bmc_failure, n.power,
       (n.bmc ->> 'power_at')::timestamptz AS power_at, CASE WHEN n.management = 'manageable' THEN n.sync_failure END AS power_failure, n.bmc ->> 'desired_power' AS desired_power,
       w.kind AS workflow, w.id AS workflow_id, w.mode, w.status AS workflow_status, w.status_entered_at AS workflow_status_entered_at,
       w.stage, w.stage_entered_at, w.attempt, w.next_attempt_at, w.failure_class, w.failure_detail,
       o.ends_by, o.outcome AS last_outcome, o.at AS last_outcome_at, so.controller, so.swept_at,
       n.paused, (SELECT jsonb_build_object('cause', q.cause, 'reason', q.reason) FROM farrier.node_quarantines q WHERE q.node = n.id) AS quarantine,
       n.version,
       n.maas_id, m.state AS maas_state, m.detail ->> 'status_name' AS maas_status_name, m.read_at AS maas_read_at,
       sc.state_limit AS status_limit, sc.above_since AS status_above_since,
       mc.state_limit AS management_limit, mc.above_since AS management_above_since,
       wc.state_limit AS workflow_limit, wc.above_since AS workflow_above_since,
       gc.state_limit AS stage_limit, gc.above_since AS stage_above_since,
       ec.since AS end_to_end_since, ec.state_limit AS end_to_end_limit, ec.above_since AS end_to_end_above_since,
       a.last_heartbeat_at, a.health -> 'alerts' AS health_alerts, a.enrolled_at
  FROM farrier.nodes n
  LEFT JOIN LATERAL (
       SELECT x.kind, x.id, x.mode, x.status, x.status_entered_at, x.stage, x.stage_entered_at,
              x.attempt, x.next_attempt_at, x.failure_class, x.failure_detail
         FROM farrier.node_workflows x WHERE x.node_id = n.id ORDER BY x.created_at DESC, x.id DESC LIMIT 1) w ON true
  LEFT JOIN farrier.outcomes o ON o.kind = 'node' AND o.id = n.id
  LEFT JOIN farrier.shard_owners so ON n.status <> 'deleted' AND so.kind = 'node' AND so.shard = farrier.shard_of(n.id)
  LEFT JOIN farrier.node_observations m ON m.node_id = n.id AND m.system_id = n.maas_id
  LEFT JOIN farrier.node_agents a ON a.node_id = n.id
  LEFT JOIN farrier.node_clocks sc ON sc.node_id = n.id AND sc.kind = 'node'
  LEFT JOIN farrier.node_clocks mc ON mc.node_id = n.id AND mc.kind = 'management' AND mc.state = n.management
  LEFT JOIN farrier.node_clocks wc ON wc.node_id = n.id AND wc.kind = n.live_workflow_kind AND wc.state = w.status AND wc.substate = ''
  LEFT JOIN farrier.node_clocks gc ON gc.node_id = n.id AND gc.kind = n.live_workflow_kind AND gc.substate <> ''
  LEFT JOIN farrier.node_clocks ec ON ec.node_id = n.id AND ec.kind = n.live_workflow_kind AND ec.state = 'end_to_end';
