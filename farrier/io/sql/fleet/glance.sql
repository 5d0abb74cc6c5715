-- Where each node from an id on stands, and what was last said of it.
SELECT n.id, n.name, n.status, n.management,
       coalesce(n.bmc ->> 'last_error', o.outcome ->> 'reason', 'has not run yet') AS reason
  FROM farrier.nodes n LEFT JOIN farrier.outcomes o ON o.kind = 'node' AND o.id = n.id
 WHERE n.id > $1
 ORDER BY n.id
