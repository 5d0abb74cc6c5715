-- What is shown of one node beyond its line in the inventory.
SELECT row_to_json(x)::text
  FROM (
    SELECT n.version, n.agentless, n.auto_manage, n.maas_id, n.bmc_address, n.bmc_credential, n.bmc,
           n.not_scrubbed, n.deleting, h.ib_guids, h.addresses, h.memberships,
           (SELECT m.detail || to_jsonb(m) FROM farrier.node_observations m
             WHERE m.node_id = n.id AND m.source = 'maas' AND m.system_id = n.maas_id AND m.read_at IS NOT NULL) AS maas,
           o.outcome, o.at AS outcome_at, s.due_at AS next_run_at, s.claim_token IS NOT NULL AS running,
           (SELECT row_to_json(w) FROM (
                SELECT 'onboarding' AS kind, a.* FROM farrier.node_onboardings a WHERE a.node_id = n.id
                UNION ALL
                SELECT 'decommission', d.* FROM farrier.node_decommissions d WHERE d.node_id = n.id
                ORDER BY created_at DESC, id DESC LIMIT 1) w) AS last_workflow,
           (SELECT coalesce(json_agg(r ORDER BY r.id DESC), '[]') FROM (
                SELECT i.id, i.action, i.params, i.requested_by, i.status, i.reason, i.created_at, i.answered_at
                  FROM farrier.intents i WHERE i.node_id = n.id ORDER BY i.id DESC LIMIT 10) r) AS requests
      FROM farrier.nodes n
     CROSS JOIN LATERAL farrier.node_holds(n.id) h
      LEFT JOIN farrier.outcomes o ON o.kind = 'node' AND o.id = n.id
      LEFT JOIN farrier.schedule s ON s.kind = 'node' AND s.id = n.id
     WHERE n.id = $1
  ) x
