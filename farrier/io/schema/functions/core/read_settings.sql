-- Returns the settings that functions read. Raises an error if the row is missing, so that no function reads a null.
CREATE OR REPLACE FUNCTION farrier.read_settings() RETURNS farrier.settings
    LANGUAGE plpgsql STABLE SET search_path = farrier, pg_temp AS $$
DECLARE
    one settings;
BEGIN
    SELECT * INTO STRICT one FROM settings;
    RETURN one;
END $$;
