-- Returns how long the readings of a machine must show the same state before the state is confirmed.
CREATE OR REPLACE FUNCTION farrier.confirmed_after() RETURNS interval
    LANGUAGE sql STABLE
    RETURN (farrier.read_constants()).confirmed_after;
