-- Returns a numeric setting of the configuration or the model from farrier.settings; null if it is not set.
CREATE OR REPLACE FUNCTION farrier.setting(name text) RETURNS numeric
    LANGUAGE plpgsql STABLE SET search_path = farrier, pg_temp AS $$
BEGIN
    RETURN (SELECT (s.value #>> '{}')::numeric FROM settings s WHERE s.name = $1);
END $$;
