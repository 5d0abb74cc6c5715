-- Records reports of a monitor that a server of the HTTP API has identified by its token; see record_reports. FR403 for a monitor
-- without a grant, FR400 for malformed arguments.
CREATE OR REPLACE FUNCTION farrier.report_as(monitor text, reports jsonb) RETURNS TABLE (place integer, verdict text, reason text)
    LANGUAGE sql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
    SELECT * FROM record_reports(prove_monitor(coalesce(monitor, '')), reports);
$$;
