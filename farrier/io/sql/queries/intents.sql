-- Returns one page of intents, newest first: examines the next $4 intents with an ID below $3, and returns at most $5
-- that match. The first four subqueries are the ways of reading, of which $1 names one; the others are never run. $2 is
-- the ID of the resource, or of the intent; $9 is the kind, null for all kinds. The bounded number of examined intents
-- bounds the cost of a page, even if few match. Intents of nodes have a table of their own, which replaces the first
-- subquery.
WITH intents AS NOT MATERIALIZED (
    SELECT i.*, NULL::integer AS api_version FROM farrier.resource_intents i
), looked AS MATERIALIZED (
    SELECT * FROM (SELECT i.* FROM intents i WHERE $1::text = 'one' AND i.id = $2::bigint) walked
    UNION ALL
    SELECT * FROM (SELECT i.* FROM intents i
                    WHERE $1 = 'all' AND i.id < $3::bigint ORDER BY i.id DESC LIMIT $4) walked
    UNION ALL
    SELECT * FROM (SELECT i.* FROM intents i
                    WHERE $1 = 'pending' AND i.status = 'pending' AND i.id < $3 ORDER BY i.id DESC LIMIT $4) walked
    UNION ALL
    SELECT * FROM (SELECT i.* FROM intents i
                    WHERE $1 = 'of one' AND i.kind = $9 AND i.resource_id = $2 AND i.id < $3 ORDER BY i.id DESC LIMIT $4) walked
), found AS MATERIALIZED (
    SELECT l.* FROM looked l
     WHERE ($9 IS NULL OR l.kind = $9 OR $1 = 'one')
       AND (cardinality($6::text[]) = 0 OR l.status = ANY ($6))
       AND (cardinality($7::text[]) = 0 OR l.action = ANY ($7))
       AND (cardinality($8::text[]) = 0 OR l.requested_by = ANY ($8))
     ORDER BY l.id DESC
     LIMIT $5
), named AS MATERIALIZED (
    SELECT k.kind, r.id, r.name
      FROM (SELECT f.kind, array_agg(DISTINCT f.resource_id) AS ids FROM found f GROUP BY f.kind) k
     CROSS JOIN LATERAL farrier.resource_names(k.kind, k.ids) r
)
SELECT json_build_object(
    'now', farrier.now(),
    'rows', coalesce((
        SELECT json_agg(json_build_object(
                   'id', f.id, 'kind', f.kind, 'resource', f.resource_id, 'name', coalesce(n.name, f.resource_id::text),
                   'action', f.action, 'params', f.params, 'api_version', f.api_version, 'idempotency_key', f.idempotency_key,
                   'requested_by', f.requested_by, 'status', f.status, 'reason', f.reason, 'created_at', f.created_at,
                   'answered_at', f.answered_at) ORDER BY f.id DESC)
          FROM found f LEFT JOIN named n ON n.kind = f.kind AND n.id = f.resource_id), '[]'),
    'looked', (SELECT count(*) FROM looked),
    'last', (SELECT min(l.id) FROM looked l))::text
