-- Returns the causes for which a brake refuses to take this node out of service. A cause is not among them while the
-- brake is lifted, and after brake_retry, because the node then retries.
CREATE OR REPLACE FUNCTION farrier.braked(of_site text, of_node bigint) RETURNS text[]
    LANGUAGE sql STABLE SET search_path = farrier, pg_temp AS $$
    SELECT coalesce(array_agg(d.source ORDER BY d.source), '{}') FROM departures d
     WHERE d.site = coalesce(of_site, '') AND d.node = of_node AND d.held AND d.at > farrier.now() - (read_constants()).brake_retry
       AND NOT EXISTS (SELECT FROM brakes_lifted l WHERE l.site = d.site)
$$;
