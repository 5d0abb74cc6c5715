-- Returns the evidence of the cleanings of one node, newest first: what agents and workers reported with their tasks, the results of
-- the checks that the region ran, and the verdicts about the stages. A cleaning without evidence has one row.
SELECT row_to_json(x)::text
  FROM (
    SELECT d.id AS workflow, d.mode, d.status, e.task, e.type, e.reported_at, e.evidence, coalesce(d.memo -> 'judged', '[]') AS judged
      FROM farrier.node_decommissions d
      LEFT JOIN LATERAL (
           SELECT NULL::bigint AS task, NULL::text AS type, (d.memo ->> 'checked_at')::timestamptz AS reported_at, d.memo -> 'evidence' AS evidence
            WHERE d.memo ->> 'evidence' IS NOT NULL
           UNION ALL
           SELECT t.id, t.type, t.ended_at, t.evidence
             FROM farrier.node_tasks t WHERE t.node_id = d.node_id AND t.workflow_id = d.id AND t.evidence IS NOT NULL) e ON true
     WHERE d.node_id = $1 AND (e.evidence IS NOT NULL OR d.memo ? 'judged')
     ORDER BY d.id DESC, e.reported_at DESC, e.task DESC
     LIMIT $2
  ) x
