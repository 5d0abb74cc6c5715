-- What is wrong with JSON that is to be stored; null for nothing. Whoever reads it walks it level by level and turns its
-- numbers into floats. What is short has room for neither fault, so most calls end there.
CREATE OR REPLACE FUNCTION farrier.json_fault(value jsonb, most integer) RETURNS text
    LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    size integer := octet_length(value::text);
BEGIN
    IF size > most THEN RETURN format('is %s bytes; %s is the most', size, most); END IF;
    IF size > 128 AND jsonb_path_exists(value, 'strict $.**{64} ? (@.type() == "array" || @.type() == "object")') THEN
        RETURN 'is nested more than 64 levels deep';
    END IF;
    IF size > 308 AND jsonb_path_exists(value, 'strict $.** ? (@ > 1e308 || @ < -1e308)') THEN
        RETURN 'has a number beyond -1e308 or 1e308';
    END IF;
    RETURN NULL;
END $$;
