-- Returns the tasks of one node (null: of all nodes), newest first.
SELECT row_to_json(x)::text
  FROM (
    SELECT t.id, (SELECT n.name FROM farrier.nodes n WHERE n.id = t.node_id) AS node, t.type, t.status, t.attempt,
           t.failures, t.claimed_by, t.lease_until, t.created_at, t.ended_at, t.result
      FROM farrier.node_tasks t
     WHERE ($1::bigint IS NULL OR t.node_id = $1)
       AND (cardinality($2::text[]) = 0 OR t.status = ANY ($2))
     ORDER BY t.id DESC
     LIMIT $3
  ) x
