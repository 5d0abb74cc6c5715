-- Returns the state of each node with an id above $1, with its last outcome.
SELECT n.id, n.name, n.status, n.management,
       coalesce(w.failure_class || ': ' || w.failure_detail, n.bmc ->> 'last_error', o.outcome ->> 'reason', 'has not run yet') AS reason,
       w.status AS workflow_status, w.stage, w.failure_class AS failure
  FROM farrier.nodes n
  LEFT JOIN farrier.outcomes o ON o.kind = 'node' AND o.id = n.id
  LEFT JOIN farrier.node_workflows w ON w.kind = n.live_workflow_kind AND w.id = n.live_workflow_id
 WHERE n.id > $1
 ORDER BY n.id
