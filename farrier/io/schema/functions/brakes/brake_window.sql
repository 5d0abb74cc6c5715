-- Returns the time over which nodes that leave service are counted together: setting brake_window_seconds.
CREATE OR REPLACE FUNCTION farrier.brake_window() RETURNS interval
    LANGUAGE sql STABLE SET search_path = farrier, pg_temp
    RETURN make_interval(secs => farrier.setting('brake_window_seconds')::double precision);
