-- Returns the GUID of a port in the stored form. FR400 for any other text.
CREATE OR REPLACE FUNCTION farrier.ib_guid(given text) RETURNS text
    LANGUAGE plpgsql IMMUTABLE SET search_path = farrier, pg_temp AS $$
BEGIN
    IF given IS NULL OR given !~* E'\\A(0x)?[0-9a-f]{16}\\Z' THEN
        RAISE EXCEPTION '% is not the GUID of a port; expected 16 hexadecimal digits', coalesce(quote_literal(given), 'null')
            USING ERRCODE = 'FR400', HINT = 'ibstat shows the GUID as Port GUID.';
    END IF;
    RETURN right(lower(given), 16);
END $$;
