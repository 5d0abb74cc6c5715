-- Returns whether a column or JSON field of this name says when something is to happen. Every other time says when something
-- happened.
CREATE OR REPLACE FUNCTION farrier.is_of_the_future(name text) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    RETURN name LIKE 'next\_%' OR name LIKE '%\_until' OR name IN ('until', 'expires_at', 'due_at');
