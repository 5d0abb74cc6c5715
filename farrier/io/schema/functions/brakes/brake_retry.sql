-- Returns the time after which farrier tries again to take a node out of service that a brake holds.
CREATE OR REPLACE FUNCTION farrier.brake_retry() RETURNS interval
    LANGUAGE sql STABLE SET search_path = farrier, pg_temp
    RETURN (farrier.read_constants()).brake_retry;
