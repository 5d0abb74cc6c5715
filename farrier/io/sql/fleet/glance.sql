-- The state of each node from an ID on, with its last outcome.
SELECT n.id, n.name, n.status, n.management,
       coalesce(w.detail, n.bmc ->> 'last_error', o.outcome ->> 'reason', 'has not run yet') AS reason,
       w.status AS workflow_status, w.stage, w.failure_class
  FROM farrier.nodes n
  LEFT JOIN farrier.outcomes o ON o.kind = 'node' AND o.id = n.id
  LEFT JOIN LATERAL (
       SELECT x.status, x.stage, x.failure_class, x.failure_class || ': ' || x.failure_detail AS detail
         FROM farrier.node_onboardings x WHERE n.live_workflow_kind = 'onboarding' AND x.id = n.live_workflow_id
        UNION ALL
       SELECT x.status, x.stage, x.failure_class, x.failure_class || ': ' || x.failure_detail
         FROM farrier.node_decommissions x WHERE n.live_workflow_kind = 'decommission' AND x.id = n.live_workflow_id) w ON true
 WHERE n.id > $1
 ORDER BY n.id
