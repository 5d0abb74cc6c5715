-- States one condition of a node (its name or ID) for the calling monitor, which its login identifies, and returns the verdict: taken,
-- unmapped (no such node), forbidden (the grant does not allow it), malformed, or full (the node has too many conditions of the monitor).
-- Nothing is stored unless the verdict is taken; another report is counted and listed. FR403 for a login without a grant.
CREATE OR REPLACE FUNCTION farrier.set_condition(
    node text, id text, target text DEFAULT '', message text DEFAULT '', effect text DEFAULT 'note', expires_at timestamptz DEFAULT NULL,
    OUT verdict text, OUT reason text)
    LANGUAGE sql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
    SELECT r.verdict, r.reason
      FROM record_reports(prove_monitor(NULL), jsonb_build_array(jsonb_build_object(
           'node', set_condition.node, 'id', set_condition.id, 'target', set_condition.target, 'message', set_condition.message,
           'effect', set_condition.effect, 'expires_at', set_condition.expires_at))) r;
$$;
