-- Returns when the brake last refused to take this node out of service. Null while the brake is lifted, and after
-- brake_retry, because the node then retries.
CREATE OR REPLACE FUNCTION farrier.braked_at(of_site text, of_node bigint) RETURNS timestamptz
    LANGUAGE sql STABLE SET search_path = farrier, pg_temp AS $$
    SELECT d.at FROM departures d
     WHERE d.site = coalesce(of_site, '') AND d.node = of_node AND d.held AND d.at > farrier.now() - (read_constants()).brake_retry
       AND NOT is_brake_lifted(d.site)
$$;
