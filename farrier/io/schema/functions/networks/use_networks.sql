-- Makes a node that is not deployed use these segments and partitions, by name, and no others. Takes the addresses and memberships
-- that are available now, and releases those of segments and partitions that are not named or are being deleted. Raises no error for
-- what is not available: the node's next run reads what is missing, and why. May be repeated, because an owner has one address of a
-- segment. Called by follow_node and, after lock_networks, by write_nodes_and_networks.
CREATE OR REPLACE FUNCTION farrier.use_networks(of_node bigint, segments text[], partitions text[]) RETURNS void
    LANGUAGE plpgsql AS $$
DECLARE
    who text;
    at_site text;
    ports text[];
    one record;
BEGIN
    SELECT n.name, n.site, coalesce(p.guids, '{}') INTO who, at_site, ports
      FROM farrier.nodes n LEFT JOIN farrier.node_ib_ports p ON p.node = n.id WHERE n.id = of_node;
    DELETE FROM farrier.node_uses u
     WHERE u.node = of_node AND u.name <> ALL (CASE u.kind WHEN 'network_segment' THEN segments ELSE partitions END);
    INSERT INTO farrier.node_uses
    SELECT of_node, 'network_segment', w FROM unnest(segments) w UNION SELECT of_node, 'ib_partition', w FROM unnest(partitions) w
        ON CONFLICT DO NOTHING;

    FOR one IN SELECT a.segment, a.address FROM farrier.segment_addresses a JOIN farrier.network_segments s ON s.id = a.segment
                WHERE a.node = of_node AND a.owner = who
                  AND (s.name <> ALL (segments) OR s.state LIKE 'deleting/%')
                ORDER BY a.segment, a.address LOOP
        PERFORM farrier.release_address(one.segment::text, one.address, who);
    END LOOP;
    FOR one IN SELECT m.partition, m.guid FROM farrier.ib_members m JOIN farrier.ib_partitions p ON p.id = m.partition
                WHERE m.node = of_node AND m.owner = who AND m.state <> 'leaving'
                  AND (p.name <> ALL (partitions) OR m.guid <> ALL (ports) OR p.state = 'deleting')
                ORDER BY m.partition, m.guid LOOP
        PERFORM farrier.leave_partition(one.partition::text, one.guid, who);
    END LOOP;

    FOR one IN SELECT s.id FROM farrier.network_segments s JOIN farrier.segment_usage u ON u.segment = s.id AND u.open AND s.state = 'ready'
                WHERE s.name = ANY (segments) AND s.ended_at IS NULL AND s.site = at_site
                  AND NOT EXISTS (SELECT FROM farrier.segment_addresses a WHERE a.segment = s.id AND a.owner = who AND a.node = of_node)
                  AND (EXISTS (SELECT FROM farrier.segment_free f WHERE f.segment = s.id)
                       OR EXISTS (SELECT FROM farrier.segment_addresses a WHERE a.segment = s.id AND a.owner = who))
                ORDER BY s.id LOOP
        PERFORM farrier.allocate_address(one.id::text, who, NULL, of_node);
    END LOOP;
    FOR one IN SELECT p.id, g AS guid, coalesce(m.membership, 'full') AS membership
                 FROM farrier.ib_partitions p CROSS JOIN unnest(ports) g
                 LEFT JOIN farrier.ib_members m ON m.partition = p.id AND m.guid = g AND m.owner = who
                WHERE p.name = ANY (partitions) AND p.ended_at IS NULL AND p.site = at_site AND p.state <> 'deleting'
                  AND NOT EXISTS (SELECT FROM farrier.ib_members o WHERE o.partition = p.id AND o.guid = g AND o.state <> 'leaving'
                                     AND (o.owner <> who OR o.node = of_node))
                ORDER BY p.id, g LOOP
        PERFORM farrier.join_partition(one.id::text, one.guid, who, of_node, one.membership);
    END LOOP;
END $$;
