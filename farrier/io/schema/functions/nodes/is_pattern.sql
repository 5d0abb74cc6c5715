-- Returns whether a text of digits and lower-case letters was written, not assigned: it is empty, repeats a part of itself, or counts.
CREATE OR REPLACE FUNCTION farrier.is_pattern(digits text) RETURNS boolean
    LANGUAGE sql IMMUTABLE SET search_path = farrier, pg_temp AS $$
    SELECT length(digits) <= 1
        OR EXISTS (SELECT FROM generate_series(1, length(digits) / 2) k
                    WHERE (k = 1 OR length(digits) >= 6) AND digits = repeat(left(digits, k), length(digits) / k))
        OR length(digits) >= 4 AND (1 = ALL (SELECT digit_steps(digits)) OR -1 = ALL (SELECT digit_steps(digits)));
$$;
