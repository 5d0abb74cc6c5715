-- Returns what is shown of one node in addition to its row of the inventory.
SELECT row_to_json(x)::text
  FROM (
    SELECT n.version,
           (SELECT coalesce(json_agg(m.mac ORDER BY m.mac), '[]') FROM farrier.node_macs m WHERE m.node_id = n.id) AS macs, n.bmc_address, n.bmc_credential, n.bmc,
           n.ever_onboarded, n.deleting, farrier.same_machine(n.id) AS same_machine, farrier.alike_machines(n.id) AS alike_machines, coalesce(f.alerts, '[]') AS alerts, f.enrolled_at, f.agent_facts,
           CASE WHEN f.by_door THEN (SELECT row_to_json(x) FROM farrier.dead_doors x ORDER BY x.pulse DESC LIMIT 1) END AS unreachable,
           CASE WHEN n.status = 'active' THEN (SELECT b.braked_at FROM farrier.braked_nodes b WHERE b.id = n.id) END AS braked_at,
           f.ib_guids, f.addresses, f.memberships,
           (SELECT m.detail || to_jsonb(m) || jsonb_build_object(
                       'fresh_at', CASE WHEN m.stale_since IS NULL THEN greatest(m.read_at, g.complete_at) ELSE m.read_at END)
              FROM farrier.node_observations m
             WHERE m.node_id = n.id AND m.system_id = n.maas_id AND m.read_at IS NOT NULL) AS maas,
           n.maas_id IS NOT NULL AND coalesce((
             SELECT o.mode <> 'manual' FROM farrier.node_onboardings o
              WHERE o.node_id = n.id AND o.status = ANY (ARRAY(SELECT s.status FROM farrier.workflow_statuses s WHERE s.succeeded)) ORDER BY o.id DESC LIMIT 1), false) AS held_here,
           CASE WHEN g.site IS NOT NULL THEN jsonb_build_object(
                'site', g.site, 'url', g.url, 'state', g.state, 'since', g.state_entered_at, 'username', g.username,
                'complete_at', g.complete_at, 'requires', g.requires, 'last_error', g.last_error) END AS region,
           -- The requesters of the intent that began this pause, and of the last intent that quarantined the node.
           CASE WHEN n.paused IS NOT NULL THEN (
                SELECT i.requested_by FROM farrier.intents i
                 WHERE i.node_id = n.id AND i.action = 'pause' AND i.status = 'accepted'
                   AND i.answered_at >= (n.paused ->> 'at')::timestamptz
                 ORDER BY i.id LIMIT 1) END AS paused_by,
           (SELECT i.requested_by FROM farrier.intents i
             WHERE i.node_id = n.id AND i.status = 'accepted'
               AND i.action = (SELECT CASE c.source WHEN 'operator' THEN 'quarantine' ELSE 'mark_manual_intervention_required' END
                                 FROM farrier.node_conditions c
                                WHERE c.node = n.id AND (c.source = 'operator' OR (c.source, c.id) = ('workflow', 'frozen'))
                                ORDER BY c.source LIMIT 1)
             ORDER BY i.id DESC LIMIT 1) AS quarantined_by,
           o.outcome, o.at AS outcome_at, so.controller, so.swept_at, e.step, e.begun_at AS step_begun_at,
           (SELECT row_to_json(w) FROM (
                SELECT x.* FROM farrier.node_workflows x WHERE x.node_id = n.id ORDER BY x.created_at DESC, x.id DESC LIMIT 1) w) AS last_workflow,
           (SELECT coalesce(json_agg(r ORDER BY r.id DESC), '[]') FROM (
                SELECT i.id, i.action, i.params, i.requested_by, i.status, i.reason, i.created_at, i.answered_at
                  FROM farrier.intents i WHERE i.node_id = n.id ORDER BY i.id DESC LIMIT 10) r) AS requests
      FROM farrier.nodes n
     CROSS JOIN LATERAL farrier.node_facts(n.id) f
      LEFT JOIN farrier.maas_regions g ON g.name = n.site AND g.ended_at IS NULL
      LEFT JOIN farrier.outcomes o ON o.kind = 'node' AND o.id = n.id
      LEFT JOIN farrier.shard_owners so ON n.status <> 'deleted' AND so.kind = 'node' AND so.shard = farrier.shard_of(n.id)
      LEFT JOIN farrier.effects e ON e.kind = 'node' AND e.resource = n.id
     WHERE n.id = $1
  ) x
