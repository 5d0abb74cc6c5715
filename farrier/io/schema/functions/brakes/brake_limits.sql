-- Returns the limits of a brake for a cause: the share of a site's nodes in service that may leave together, and the number of nodes
-- from which it holds. Called by held_by_brakes.
CREATE OR REPLACE FUNCTION farrier.brake_limits(of_source text, OUT share numeric, OUT at_least integer)
    LANGUAGE sql STABLE SET search_path = farrier, pg_temp AS $$
    SELECT s.brake_share, s.brake_at_least FROM read_settings() s
$$;
