-- Returns whether a node has a segment or partition to use, an address or a membership.
CREATE OR REPLACE FUNCTION farrier.has_networks(of_node bigint) RETURNS boolean
    LANGUAGE sql STABLE
    RETURN EXISTS (SELECT FROM farrier.node_uses u WHERE u.node = of_node)
        OR EXISTS (SELECT FROM farrier.segment_addresses a WHERE a.node = of_node)
        OR EXISTS (SELECT FROM farrier.ib_members m WHERE m.node = of_node AND m.state <> 'leaving');
