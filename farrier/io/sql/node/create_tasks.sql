-- Tasks for agents, belonging to the node's live decommission. One that is live already is not made twice; looked for
-- before, because the index alone would wait for an agent that is just finishing it.
INSERT INTO farrier.node_tasks (node_id, workflow_id, type, status, params, attempt, failures, result, ended_at)
SELECT r.node_id, n.live_workflow_id, r.type, coalesce(r.status, 'queued'), r.params, r.attempt, r.failures,
       to_jsonb(r.result), CASE WHEN r.status IS NOT NULL THEN farrier.now() END
  FROM unnest($1::bigint[], $2::text[], $3::text[], $4::jsonb[], $5::integer[], $6::integer[], $7::text[])
       AS r (node_id, type, status, params, attempt, failures, result)
  JOIN farrier.nodes n ON n.id = r.node_id
 WHERE r.status IS NOT NULL
    OR NOT EXISTS (SELECT FROM farrier.node_tasks t
                    WHERE t.node_id = r.node_id AND t.type = r.type AND t.status IN ('queued', 'dispatched'))
    ON CONFLICT (node_id, type) WHERE status IN ('queued', 'dispatched') DO NOTHING
