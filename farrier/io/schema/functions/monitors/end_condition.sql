-- Ends one condition of a node (its name or ID) that the calling monitor has stated, and returns the verdict, as set_condition
-- does. May be repeated: if the node does not have the condition, the reason says so.
CREATE OR REPLACE FUNCTION farrier.end_condition(node text, id text, target text DEFAULT '', OUT verdict text, OUT reason text)
    LANGUAGE sql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
    SELECT r.verdict, r.reason
      FROM record_reports(prove_monitor(NULL), jsonb_build_array(jsonb_build_object(
           'node', end_condition.node, 'id', end_condition.id, 'target', end_condition.target, 'ends', true))) r;
$$;
