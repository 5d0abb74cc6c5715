-- Returns one resource with all details, and its newest intents.
SELECT json_build_object(
           'resource', r,
           'requests', (SELECT coalesce(json_agg(q ORDER BY q.id DESC), '[]') FROM (
                            SELECT i.id, i.action, i.params, i.requested_by, i.status, i.reason, i.created_at, i.answered_at
                              FROM farrier.resource_intents i WHERE i.kind = $1 AND i.resource_id = $2
                             ORDER BY i.id DESC LIMIT 10) q))::text
  FROM farrier.show_resources($1, $2, '{}', '{}', true, '', 0, 1) r
