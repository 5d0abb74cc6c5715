-- Returns the nodes that a filter selects: `statuses` and `managements`, empty for any; `details`, the selected values by detail;
-- `failed`, only nodes whose workflow failed, whose BMC or its power cannot be read, or which a brake holds; tests of labels as (key, value,
-- negated), where a null value stands for any value. The planner inlines it, so that a statement that calls it can use
-- every index of nodes.
CREATE OR REPLACE FUNCTION farrier.selected_nodes(
    statuses text[], managements text[], details jsonb, failed boolean, label_keys text[], label_values text[], label_negations boolean[])
    RETURNS SETOF farrier.nodes LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT n.*
      FROM farrier.nodes n
     WHERE n.status <> 'deleted'
       AND (cardinality($1) = 0 OR n.status = ANY ($1))
       AND (cardinality($2) = 0 OR n.management = ANY ($2))
       AND ($3 -> 'site' IS NULL OR n.site = ANY (farrier.text_array($3 -> 'site')))
       AND ($3 -> 'model' IS NULL OR n.model = ANY (farrier.text_array($3 -> 'model')))
       AND ($3 -> 'rack' IS NULL OR n.rack = ANY (farrier.text_array($3 -> 'rack')))
       AND (NOT $4
            OR n.bmc ->> 'failure' IS NOT NULL OR n.management = 'manageable' AND n.sync_failure IS NOT NULL
            OR n.status = 'active' AND n.id IN (SELECT b.id FROM farrier.braked_nodes b)
            OR (SELECT w.status FROM farrier.node_workflows w WHERE w.kind = n.live_workflow_kind AND w.id = n.live_workflow_id)
               = ANY (ARRAY(SELECT s.status FROM farrier.workflow_statuses s WHERE s.failed)))
       AND (cardinality($5) = 0 OR NOT EXISTS (
            SELECT FROM unnest($5, $6, $7) AS l (key, value, negated)
             WHERE CASE WHEN l.value IS NULL THEN n.labels ? l.key ELSE (n.labels ->> l.key) IS NOT DISTINCT FROM l.value END = l.negated))
$$;
