-- Returns whether 32 hexadecimal digits can be the UUID of one machine, in the given order of bytes. They are not if they are a pattern,
-- if nearly all neighbouring digits are equal or count, or if every second byte counts; vendors ship such UUIDs, some with a MAC address
-- between the counting bytes. A UUID of zeros before a MAC address is as unique as the address.
CREATE OR REPLACE FUNCTION farrier.is_unique_uuid(hex text) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE STRICT SET search_path = farrier, pg_temp AS $$
DECLARE
    bytes bytea := decode(hex, 'hex');
BEGIN
    IF hex ~ '^0{20}' THEN RETURN is_unique_mac(right(hex, 12)); END IF;
    RETURN NOT is_pattern(hex)
       AND (SELECT count(*) FROM digit_steps(hex) s WHERE abs(s) <= 1) < 24
       AND 1 < ALL (SELECT count(DISTINCT (get_byte(bytes, i + 2) - get_byte(bytes, i) + 256) % 256) FROM generate_series(0, 13) i GROUP BY i % 2);
END $$;
