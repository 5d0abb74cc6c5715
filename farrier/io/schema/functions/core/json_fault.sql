-- Returns the fault of JSON that a caller will store, as the end of a sentence, or null if there is none. The faults
-- are more than `most` bytes, more than 64 levels of nesting, and a number that is too large for a double. Programs
-- that read the JSON decode it recursively, and its numbers as doubles. A short text cannot have the last two faults,
-- so most calls check only the length.
CREATE OR REPLACE FUNCTION farrier.json_fault(value jsonb, most integer) RETURNS text
    LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    size integer := octet_length(value::text);
BEGIN
    IF size > most THEN RETURN format('has %s bytes; at most %s are allowed', size, most); END IF;
    IF size > 128 AND jsonb_path_exists(value, 'strict $.**{64} ? (@.type() == "array" || @.type() == "object")') THEN
        RETURN 'is nested more than 64 levels deep';
    END IF;
    IF size > 308 AND jsonb_path_exists(value, 'strict $.** ? (@ > 1e308 || @ < -1e308)') THEN
        RETURN 'has a number beyond -1e308 or 1e308';
    END IF;
    RETURN NULL;
END $$;
