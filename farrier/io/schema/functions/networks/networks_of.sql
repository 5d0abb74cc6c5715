-- Returns the segments and partitions that a node uses, with the addresses and memberships that it has, for its snapshot
-- (farrier.model.network.uses); null for a node that uses none. The language is PL/pgSQL because it caches the plan; an SQL
-- function does not.
CREATE OR REPLACE FUNCTION farrier.networks_of(of_node bigint, called text) RETURNS jsonb
    LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT jsonb_build_object(
        'segments', coalesce(jsonb_agg(jsonb_build_object(
            'name', u.name, 'state', s.state, 'site', s.site, 'mtu', s.mtu, 'vlan', s.vlan,
            'address', host(a.address), 'prefix_length', masklen(a.prefix), 'gateway', host(x.gateway),
            'free', s.id IS NOT NULL AND (
                EXISTS (SELECT FROM farrier.segment_free f WHERE f.segment = s.id)
                OR EXISTS (SELECT FROM farrier.segment_addresses b WHERE b.segment = s.id AND b.owner = called))
            ) ORDER BY u.name) FILTER (WHERE u.kind = 'network_segment'), '[]'),
        'partitions', coalesce(jsonb_agg(jsonb_build_object(
            'name', u.name, 'state', p.state, 'site', p.site, 'last_error', p.last_error,
            'ports', coalesce((SELECT jsonb_agg(jsonb_build_object('guid', m.guid, 'owner', m.owner, 'state', m.state, 'reason', m.reason,
                                                                   'ours', m.owner = called AND m.node IS NOT DISTINCT FROM of_node)
                                                ORDER BY m.guid)
                                 FROM farrier.ib_members m
                                WHERE m.partition = p.id
                                  AND (m.node = of_node OR m.guid = ANY ((SELECT i.guids FROM farrier.node_ib_ports i WHERE i.node = of_node)::text[]))), '[]')
            ) ORDER BY u.name) FILTER (WHERE u.kind = 'ib_partition'), '[]'))
      FROM farrier.node_uses u
      LEFT JOIN farrier.network_segments s ON u.kind = 'network_segment' AND s.name = u.name AND s.ended_at IS NULL
      LEFT JOIN LATERAL (SELECT b.* FROM farrier.segment_addresses b WHERE b.segment = s.id AND b.node = of_node AND b.owner = called
                          ORDER BY b.address LIMIT 1) a ON true
      LEFT JOIN farrier.segment_prefixes x ON x.segment = a.segment AND x.prefix = a.prefix
      LEFT JOIN farrier.ib_partitions p ON u.kind = 'ib_partition' AND p.name = u.name AND p.ended_at IS NULL
     WHERE u.node = of_node
    HAVING count(*) > 0);
END $$;
