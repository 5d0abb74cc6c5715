-- Returns the fault of a text of a condition, as the end of a sentence, or null if there is none. Called by report_fault.
CREATE OR REPLACE FUNCTION farrier.text_fault(value text, fewest integer, most integer) RETURNS text
    LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN value IS NULL OR char_length(value) NOT BETWEEN fewest AND most
                THEN format('must have %s to %s characters, got %s', fewest, most, coalesce(char_length(value)::text, 'null'))
                WHEN value COLLATE "C" ~ E'[\\u0001-\\u001f\\u007f-\\u009f]' THEN 'must not have control characters' END
$$;
