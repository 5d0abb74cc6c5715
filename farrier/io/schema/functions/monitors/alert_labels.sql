-- Returns which labels of a monitor's alerts name what, where they differ from the defaults. FR403 for a monitor without a grant. Called
-- by servers of the HTTP API.
CREATE OR REPLACE FUNCTION farrier.alert_labels(monitor text) RETURNS jsonb
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
    SELECT (prove_monitor(coalesce(monitor, ''))).labels;
$$;
