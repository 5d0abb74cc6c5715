-- Returns one page of intents of nodes, newest first: examines the next $4 intents with an ID below $3, and returns at
-- most $5 that match. The first four subqueries are the ways of reading, of which $1 names one; the others are never
-- run. $2 is the ID of the node, or of the intent. The bounded number of examined intents bounds the cost of a page,
-- even if few match.
WITH looked AS MATERIALIZED (
    SELECT * FROM (SELECT i.* FROM farrier.intents i WHERE $1::text = 'one' AND i.id = $2::bigint) walked
    UNION ALL
    SELECT * FROM (SELECT i.* FROM farrier.intents i
                    WHERE $1 = 'all' AND i.id < $3::bigint ORDER BY i.id DESC LIMIT $4) walked
    UNION ALL
    SELECT * FROM (SELECT i.* FROM farrier.intents i
                    WHERE $1 = 'pending' AND i.status = 'pending' AND i.id < $3 ORDER BY i.id DESC LIMIT $4) walked
    UNION ALL
    SELECT * FROM (SELECT i.* FROM farrier.intents i
                    WHERE $1 = 'of one' AND i.node_id = $2 AND i.id < $3 ORDER BY i.id DESC LIMIT $4) walked
), found AS MATERIALIZED (
    SELECT l.* FROM looked l
     WHERE (cardinality($6::text[]) = 0 OR l.status = ANY ($6))
       AND (cardinality($7::text[]) = 0 OR l.action = ANY ($7))
       AND (cardinality($8::text[]) = 0 OR l.requested_by = ANY ($8))
     ORDER BY l.id DESC
     LIMIT $5
)
SELECT json_build_object(
    'now', farrier.now(),
    'rows', coalesce((
        SELECT json_agg(json_build_object(
                   'id', f.id, 'kind', 'node', 'resource', f.node_id, 'name', coalesce(n.name, f.node_id::text),
                   'action', f.action, 'params', f.params, 'api_version', f.api_version, 'idempotency_key', f.idempotency_key,
                   'requested_by', f.requested_by, 'status', f.status, 'reason', f.reason, 'created_at', f.created_at,
                   'answered_at', f.answered_at) ORDER BY f.id DESC)
          FROM found f
          LEFT JOIN farrier.resource_names('node', ARRAY(SELECT DISTINCT x.node_id FROM found x)) n ON n.id = f.node_id), '[]'),
    'looked', (SELECT count(*) FROM looked),
    'last', (SELECT min(l.id) FROM looked l))::text
