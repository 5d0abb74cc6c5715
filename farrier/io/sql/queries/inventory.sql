-- Returns the ids of one page of the inventory, by name. $1 and $2: selected statuses and managements, empty for any; $3: selected
-- values by detail; $6: only nodes whose workflow failed, or whose BMC or its power cannot be read.
SELECT n.id
  FROM farrier.nodes n
 WHERE n.status <> 'deleted'
   AND n.name > $4::text
   AND (cardinality($1::text[]) = 0 OR n.status = ANY ($1))
   AND (cardinality($2::text[]) = 0 OR n.management = ANY ($2))
   AND ($3::jsonb = '{}' OR NOT EXISTS (
        SELECT FROM farrier.columns_of(n) c CROSS JOIN jsonb_each($3::jsonb) w WHERE (w.value ? (to_jsonb(c) ->> w.key)) IS NOT TRUE))
   AND (NOT $6::boolean
        OR n.bmc ->> 'failure' IS NOT NULL OR n.management = 'manageable' AND n.sync_failure IS NOT NULL
        OR (SELECT w.status FROM farrier.node_workflows w WHERE w.kind = n.live_workflow_kind AND w.id = n.live_workflow_id)
           = ANY (ARRAY(SELECT s.status FROM farrier.workflow_statuses s WHERE s.failed)))
 ORDER BY n.name
 LIMIT $5
