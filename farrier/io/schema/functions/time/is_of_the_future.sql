-- Returns whether a column or JSON field of this name has the time of a future event. All other times are those of past events.
CREATE OR REPLACE FUNCTION farrier.is_of_the_future(name text) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    RETURN name LIKE E'next\\_%' OR name LIKE E'%\\_until' OR name IN ('until', 'expires_at', 'due_at');
