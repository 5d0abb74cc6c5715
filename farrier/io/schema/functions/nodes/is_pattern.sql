-- Returns whether a text of digits and lower-case letters was written, not assigned: it is empty, repeats a part of itself, or counts.
CREATE OR REPLACE FUNCTION farrier.is_pattern(digits text) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE STRICT SET search_path = farrier, pg_temp AS $$
BEGIN
    RETURN length(digits) <= 1
        OR digits ~ E'^(.)\\1+$'
        OR length(digits) >= 6 AND digits ~ E'^(.+)\\1+$'
        OR length(digits) >= 4 AND (NOT EXISTS (SELECT FROM digit_steps(digits) s WHERE s <> 1)
                                    OR NOT EXISTS (SELECT FROM digit_steps(digits) s WHERE s <> -1));
END $$;
