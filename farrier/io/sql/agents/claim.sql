-- The oldest queued task of each of these nodes, each claimed by the node's own agent. Few have one at any time, and to
-- ask for a node that has none takes as long as for one that has.
SELECT t.task, t.node_id, t.type, t.params, t.attempt, t.lease_token
  FROM (SELECT n.id FROM farrier.nodes n
         WHERE n.id = ANY ($1::bigint[]) AND n.status <> 'deleted'
           AND EXISTS (SELECT FROM farrier.node_tasks q WHERE q.node_id = n.id AND q.status = 'queued')
         ORDER BY n.id) n,
       LATERAL farrier.claim_task('agent-' || n.id, $2, n.id::text, $3) t
