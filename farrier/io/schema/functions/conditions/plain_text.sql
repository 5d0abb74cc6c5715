-- Returns the text with spaces in place of control characters. Called by health_conditions: a report that was refused because of a
-- text would make the node silent.
CREATE OR REPLACE FUNCTION farrier.plain_text(value text) RETURNS text
    LANGUAGE sql IMMUTABLE RETURN regexp_replace(value COLLATE "C", E'[\\u0001-\\u001f\\u007f-\\u009f]', ' ', 'g');
