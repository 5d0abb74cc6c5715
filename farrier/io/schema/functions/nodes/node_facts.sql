-- Returns facts about a node for display: the last reports of its agent, its ports, and the addresses and memberships that any owner
-- has allocated for it. Readers have no right on these tables; a view of the agent's reports would be planned with all its clocks.
CREATE OR REPLACE FUNCTION farrier.node_facts(of_node bigint)
    RETURNS TABLE (alerts jsonb, enrolled_at timestamptz, agent_facts jsonb, by_door boolean, ib_guids text[], addresses jsonb, memberships jsonb)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
    SELECT (SELECT g.health -> 'alerts' FROM node_agents g WHERE g.node_id = of_node),
           (SELECT g.enrolled_at FROM node_agents g WHERE g.node_id = of_node),
           (SELECT g.facts FROM node_agents g WHERE g.node_id = of_node),
           (SELECT g.by_door FROM node_agents g WHERE g.node_id = of_node),
           (SELECT p.guids FROM node_ib_ports p WHERE p.node = of_node),
           (SELECT coalesce(jsonb_agg(jsonb_build_object('segment', s.name, 'address', host(a.address), 'owner', a.owner) ORDER BY s.name, a.address), '[]')
              FROM segment_addresses a JOIN network_segments s ON s.id = a.segment WHERE a.node = of_node),
           (SELECT coalesce(jsonb_agg(jsonb_build_object('partition', p.name, 'guid', m.guid, 'state', m.state) ORDER BY p.name, m.guid), '[]')
              FROM ib_members m JOIN ib_partitions p ON p.id = m.partition WHERE m.node = of_node);
$$;
