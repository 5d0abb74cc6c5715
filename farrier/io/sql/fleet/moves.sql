-- Returns the newest changes of nodes, newest first.
SELECT h.at, n.name, h.layer, h.from_value, h.to_value, h.cause
  FROM farrier.history h JOIN farrier.nodes n ON n.id = h.id
 WHERE h.kind = 'node'
 ORDER BY h.at DESC, h.id, h.version DESC
 LIMIT $1
