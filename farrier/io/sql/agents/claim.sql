-- Claims the oldest queued task of each of these nodes as the node's agent; skips agents whose key is invalid, and
-- nodes without a queued task, because few nodes have a task, and a claim that finds no task costs as much as any
-- other.
SELECT t.task, b.node, b.key, t.type, t.lease_token
  FROM (SELECT b.node, b.key
          FROM jsonb_to_recordset($1::jsonb) AS b (node bigint, key text)
          JOIN farrier.node_agents a ON a.node_id = b.node AND a.key_hash = farrier.digest(b.key)
          JOIN farrier.nodes n ON n.id = b.node AND n.status <> 'deleted'
         WHERE EXISTS (SELECT FROM farrier.node_tasks q WHERE q.node_id = b.node AND q.status = 'queued')
         ORDER BY b.node) b,
       LATERAL farrier.claim_task(b.node::text, $2, b.key, $3) t
