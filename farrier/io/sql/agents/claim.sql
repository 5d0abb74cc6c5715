-- The oldest queued task of each of these nodes, each claimed by the node's own agent.
SELECT t.task, t.node_id, t.type, t.params, t.attempt, t.lease_token
  FROM (SELECT n.id FROM farrier.nodes n WHERE n.id = ANY ($1::bigint[]) AND n.status <> 'deleted' ORDER BY n.id) n,
       LATERAL farrier.claim_task('agent-' || n.id, $2, n.id::text, $3) t
