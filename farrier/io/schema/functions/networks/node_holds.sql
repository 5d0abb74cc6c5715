-- Returns the ports of a node, and the addresses and memberships that any owner has allocated for it, for display.
CREATE OR REPLACE FUNCTION farrier.node_holds(of_node bigint) RETURNS TABLE (ib_guids text[], addresses jsonb, memberships jsonb)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
    SELECT (SELECT p.guids FROM node_ib_ports p WHERE p.node = of_node),
           (SELECT coalesce(jsonb_agg(jsonb_build_object('segment', s.name, 'address', host(a.address), 'owner', a.owner) ORDER BY s.name, a.address), '[]')
              FROM segment_addresses a JOIN network_segments s ON s.id = a.segment WHERE a.node = of_node),
           (SELECT coalesce(jsonb_agg(jsonb_build_object('partition', p.name, 'guid', m.guid, 'state', m.state) ORDER BY p.name, m.guid), '[]')
              FROM ib_members m JOIN ib_partitions p ON p.id = m.partition WHERE m.node = of_node);
$$;
