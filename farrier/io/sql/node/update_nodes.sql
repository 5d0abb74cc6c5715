-- The node itself. Its live workflow is looked up, not believed: the row just written or inserted.
UPDATE farrier.nodes n
   SET version = n.version + 1,
       status = r.status,
       status_entered_at = CASE WHEN n.status = r.status THEN n.status_entered_at ELSE farrier.now() END,
       management = r.management,
       management_entered_at = CASE WHEN n.management = r.management THEN n.management_entered_at ELSE farrier.now() END,
       bmc_address = r.bmc_address,
       bmc_credential = r.bmc_credential,
       bmc = r.bmc,
       quarantine = r.quarantine,
       paused = r.paused,
       ever_onboarded = r.ever_onboarded,
       ever_active = r.ever_active,
       not_scrubbed = r.not_scrubbed,
       deleting = r.deleting,
       live_workflow_kind = r.live_workflow_kind,
       live_workflow_id = CASE r.live_workflow_kind
           WHEN 'onboarding' THEN (SELECT o.id FROM farrier.node_onboardings o
                                    WHERE o.node_id = n.id AND o.status NOT IN ('completed', 'cancelled', 'reconciled'))
           WHEN 'decommission' THEN (SELECT d.id FROM farrier.node_decommissions d
                                      WHERE d.node_id = n.id AND d.status NOT IN ('completed', 'cancelled', 'reconciled'))
       END
  FROM jsonb_populate_recordset(NULL::farrier.nodes, $1::jsonb) r
 WHERE n.id = r.id AND n.version = r.version
RETURNING n.id
