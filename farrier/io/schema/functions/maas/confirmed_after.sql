-- Returns the minimum time between two readings of a machine that confirm the state that both show.
CREATE OR REPLACE FUNCTION farrier.confirmed_after() RETURNS interval
    LANGUAGE sql STABLE
    RETURN (farrier.read_constants()).confirmed_after;
