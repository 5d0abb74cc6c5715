-- Returns the ids of one page of the inventory, by name. $1 and $2: selected statuses and managements, empty for any;
-- $3: selected values by detail; $4: only nodes whose workflow failed, or whose BMC or its power cannot be read; $5 to
-- $7: tests of labels as (key, value, negated), value null: any; $8 to $10: ranges of names as (first, beyond, pattern),
-- each of which reads its part of the index; $11: the name after which the page begins.
SELECT x.id
  FROM unnest($8::text[], $9::text[], $10::text[]) AS r (first, beyond, pattern)
 CROSS JOIN LATERAL (
       SELECT n.id, n.name
         FROM farrier.nodes n
        WHERE n.status <> 'deleted'
          -- The planner expects few names of a range and of the operator ~, and would read and sort the whole fleet. It
          -- makes no such estimate for a comparison of rows and for a function.
          AND n.name > $11::text AND (n.name, 0) >= (r.first, 0) AND (n.name, 0) < (r.beyond, 0) AND regexp_like(n.name, r.pattern)
          AND (cardinality($1::text[]) = 0 OR n.status = ANY ($1))
          AND (cardinality($2::text[]) = 0 OR n.management = ANY ($2))
          AND ($3::jsonb = '{}' OR NOT EXISTS (
               SELECT FROM farrier.columns_of(n) c CROSS JOIN jsonb_each($3::jsonb) w WHERE (w.value ? (to_jsonb(c) ->> w.key)) IS NOT TRUE))
          AND (NOT $4::boolean
               OR n.bmc ->> 'failure' IS NOT NULL OR n.management = 'manageable' AND n.sync_failure IS NOT NULL
               OR (SELECT w.status FROM farrier.node_workflows w WHERE w.kind = n.live_workflow_kind AND w.id = n.live_workflow_id)
                  = ANY (ARRAY(SELECT s.status FROM farrier.workflow_statuses s WHERE s.failed)))
          AND (cardinality($5::text[]) = 0 OR NOT EXISTS (
               SELECT FROM unnest($5, $6::text[], $7::boolean[]) AS l (key, value, negated)
                WHERE CASE WHEN l.value IS NULL THEN n.labels ? l.key ELSE (n.labels ->> l.key) IS NOT DISTINCT FROM l.value END = l.negated))
        ORDER BY n.name
        LIMIT $12) x
 GROUP BY x.id, x.name
 ORDER BY x.name
 LIMIT $12
