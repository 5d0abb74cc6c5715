-- Nodes with a pending intent for which a step that only reads is cut short.
SELECT DISTINCT i.node_id AS id
  FROM farrier.intents i JOIN farrier.actions a USING (action)
 WHERE i.node_id = ANY ($1::bigint[]) AND i.status = 'pending' AND a.interrupts
