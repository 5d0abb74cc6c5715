-- Returns the time over which nodes that leave service are counted together.
CREATE OR REPLACE FUNCTION farrier.brake_window() RETURNS interval
    LANGUAGE sql STABLE SET search_path = farrier, pg_temp
    RETURN (farrier.read_settings()).brake_window;
