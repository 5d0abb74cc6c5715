-- Returns the allocated addresses of a segment, by its name or id, with their owners. FR404 for a segment that has ended.
CREATE OR REPLACE FUNCTION farrier.list_addresses(segment text)
    RETURNS TABLE (address inet, prefix cidr, owner text, node bigint, allocated_at timestamptz)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
    SELECT a.address, a.prefix, a.owner, a.node, a.allocated_at FROM segment_addresses a
     WHERE a.segment = find_resource('network_segment', $1) ORDER BY a.address;
$$;
