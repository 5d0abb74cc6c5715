-- Returns the MAC addresses in an array of texts. FR400 for a malformed address.
CREATE OR REPLACE FUNCTION farrier.read_macs(macs jsonb) RETURNS macaddr[]
    LANGUAGE plpgsql STABLE SET search_path = farrier, pg_temp AS $$
BEGIN
    RETURN ARRAY(SELECT jsonb_array_elements_text(macs)::macaddr);
EXCEPTION WHEN data_exception THEN
    RAISE EXCEPTION 'macs: %', left(SQLERRM, 200)
        USING ERRCODE = 'FR400', HINT = 'Expected six bytes in hexadecimal digits, such as 02:00:00:00:00:01.';
END $$;
