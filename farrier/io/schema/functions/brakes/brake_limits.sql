-- Returns the limits of a brake for a cause: the share of a site's nodes in service that may leave together, and the number of nodes
-- from which it holds. The grant of a monitor may have its own. Called by held_by_brakes.
CREATE OR REPLACE FUNCTION farrier.brake_limits(of_source text, OUT share numeric, OUT at_least integer)
    LANGUAGE sql STABLE SET search_path = farrier, pg_temp AS $$
    SELECT coalesce(m.brake_share, s.brake_share), coalesce(m.brake_at_least, s.brake_at_least)
      FROM read_settings() s LEFT JOIN monitors m ON 'monitor:' || m.name = of_source
$$;
