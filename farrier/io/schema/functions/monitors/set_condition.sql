-- States one condition of a node (its name or ID) for the calling monitor, and returns the verdict; see record_reports. Nothing is stored
-- unless the verdict is taken.
CREATE OR REPLACE FUNCTION farrier.set_condition(
    node text, id text, target text DEFAULT '', message text DEFAULT '', effect text DEFAULT 'note', expires_at timestamptz DEFAULT NULL,
    OUT verdict text, OUT reason text)
    LANGUAGE sql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
    SELECT r.verdict, r.reason
      FROM record_reports(prove_monitor(NULL), jsonb_build_array(jsonb_build_object(
           'node', set_condition.node, 'id', set_condition.id, 'target', set_condition.target, 'message', set_condition.message,
           'effect', set_condition.effect, 'expires_at', set_condition.expires_at))) r;
$$;
