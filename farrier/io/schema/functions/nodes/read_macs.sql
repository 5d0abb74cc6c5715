-- Returns the MAC addresses in these texts. FR400 for a malformed one and for a null among them.
CREATE OR REPLACE FUNCTION farrier.read_macs(macs text[]) RETURNS macaddr[]
    LANGUAGE plpgsql STABLE SET search_path = farrier, pg_temp AS $$
BEGIN
    IF array_position(macs, NULL) IS NOT NULL THEN
        RAISE EXCEPTION 'macs: null is no MAC address' USING ERRCODE = 'FR400', HINT = 'Leave it out; a node may have none.';
    END IF;
    RETURN macs::macaddr[];
EXCEPTION WHEN data_exception THEN
    RAISE EXCEPTION 'macs: %', left(SQLERRM, 200)
        USING ERRCODE = 'FR400', HINT = 'A MAC address is six bytes in hexadecimal digits: 02:00:00:00:00:01.';
END $$;
