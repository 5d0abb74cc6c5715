-- Records heartbeats of many agents that still belong to their nodes, in the order of ids, in which all writers lock.
SELECT farrier.heartbeat(b.node::text, b.health, b.key), b.node
  FROM (SELECT b.node, b.health, b.key
          FROM jsonb_to_recordset($1::jsonb) AS b (node bigint, health jsonb, key text)
          JOIN farrier.node_agents a ON a.node_id = b.node AND a.key_hash = farrier.digest(b.key)
          JOIN farrier.nodes n ON n.id = b.node AND n.status <> 'deleted'
         ORDER BY b.node) b
