-- The ids of one page of the inventory, by name. $1 to $3: statuses, managements and sites that are wanted, empty for any;
-- $6: only nodes whose workflow failed, or whose BMC or its power cannot be read.
SELECT n.id
  FROM farrier.nodes n
 WHERE n.status <> 'deleted'
   AND n.name > $4::text
   AND (cardinality($1::text[]) = 0 OR n.status = ANY ($1))
   AND (cardinality($2::text[]) = 0 OR n.management = ANY ($2))
   AND (cardinality($3::text[]) = 0 OR n.site = ANY ($3))
   AND (NOT $6::boolean
        OR n.bmc ->> 'failure' IS NOT NULL OR n.management = 'manageable' AND n.sync_failure IS NOT NULL
        OR n.live_workflow_kind = 'onboarding' AND (
           SELECT o.status FROM farrier.node_onboardings o WHERE o.id = n.live_workflow_id)
           = ANY (ARRAY(SELECT s.status FROM farrier.workflow_statuses s WHERE s.failed))
        OR n.live_workflow_kind = 'decommission' AND (
           SELECT d.status FROM farrier.node_decommissions d WHERE d.id = n.live_workflow_id)
           = ANY (ARRAY(SELECT s.status FROM farrier.workflow_statuses s WHERE s.failed)))
 ORDER BY n.name
 LIMIT $5
