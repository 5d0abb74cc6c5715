-- Returns whether 12 hexadecimal digits can be the address of one network card: not a pattern, and neither locally administered nor of
-- a group (the two low bits of the first byte).
CREATE OR REPLACE FUNCTION farrier.is_unique_mac(hex text) RETURNS boolean
    LANGUAGE sql IMMUTABLE SET search_path = farrier, pg_temp AS $$
    SELECT hex ~ '^[0-9a-f][048c][0-9a-f]{10}$' AND NOT is_pattern(hex) AND EXISTS (SELECT FROM digit_steps(hex) s WHERE abs(s) > 1);
$$;
