-- Returns the evidence of the cleanings of one node, newest first: what agents and workers reported with their tasks, and the results of
-- the checks that the region ran.
SELECT row_to_json(x)::text
  FROM (
    SELECT d.id AS workflow, d.mode, d.status, e.task, e.type, e.reported_at, e.evidence
      FROM farrier.node_decommissions d
     CROSS JOIN LATERAL (
           SELECT NULL::bigint AS task, NULL::text AS type, (d.memo ->> 'checked_at')::timestamptz AS reported_at, d.memo -> 'evidence' AS evidence
            WHERE d.memo ->> 'evidence' IS NOT NULL
           UNION ALL
           SELECT t.id, t.type, t.ended_at, t.evidence
             FROM farrier.node_tasks t WHERE t.node_id = d.node_id AND t.workflow_id = d.id AND t.evidence IS NOT NULL) e
     WHERE d.node_id = $1
     ORDER BY d.id DESC, e.reported_at DESC, e.task DESC
     LIMIT $2
  ) x
