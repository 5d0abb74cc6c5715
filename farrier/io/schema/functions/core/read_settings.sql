-- Returns the settings that functions need. Raises an error if the row is missing, so that no function takes one of
-- them for null.
CREATE OR REPLACE FUNCTION farrier.read_settings() RETURNS farrier.settings
    LANGUAGE plpgsql STABLE SET search_path = farrier, pg_temp AS $$
DECLARE
    one settings;
BEGIN
    SELECT * INTO STRICT one FROM settings;
    RETURN one;
END $$;
