-- Returns the constants of the model that functions read. Raises an error if the row is missing, so that no function reads a null.
CREATE OR REPLACE FUNCTION farrier.read_constants() RETURNS farrier.constants
    LANGUAGE plpgsql STABLE AS $$
DECLARE
    one farrier.constants;
BEGIN
    SELECT * INTO STRICT one FROM farrier.constants;
    RETURN one;
END $$;
