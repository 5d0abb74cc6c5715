-- Records reports of the calling monitor, each {node, by, id, target, message, effect, expires_at, ends}, and returns a verdict for each,
-- as set_condition does. `by` says how `node` names the node: name, serial, or null for its name or ID. With `ends`, the condition ends.
-- FR403 for a login without a grant, FR400 for malformed arguments.
CREATE OR REPLACE FUNCTION farrier.report_conditions(reports jsonb) RETURNS TABLE (place integer, verdict text, reason text)
    LANGUAGE sql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
    SELECT * FROM record_reports(prove_monitor(NULL), reports);
$$;
