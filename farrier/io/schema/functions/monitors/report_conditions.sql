-- Records reports of the calling monitor, which its login identifies; see record_reports for their form and the verdicts. FR403 for a
-- login without a grant, FR400 for malformed arguments.
CREATE OR REPLACE FUNCTION farrier.report_conditions(reports jsonb) RETURNS TABLE (place integer, verdict text, reason text)
    LANGUAGE sql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
    SELECT * FROM record_reports(prove_monitor(NULL), reports);
$$;
