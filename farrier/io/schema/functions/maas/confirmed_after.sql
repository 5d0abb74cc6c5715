-- Returns how far apart two readings of a machine are that confirm what both show.
CREATE OR REPLACE FUNCTION farrier.confirmed_after() RETURNS interval
    LANGUAGE sql STABLE
    RETURN (farrier.read_constants()).confirmed_after;
