-- Returns the texts of a JSON list. It is immutable, so that the planner knows the values that a filter selects, and
-- estimates how many rows have them.
CREATE OR REPLACE FUNCTION farrier.text_array(list jsonb) RETURNS text[] LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN ARRAY(SELECT jsonb_array_elements_text(list));
