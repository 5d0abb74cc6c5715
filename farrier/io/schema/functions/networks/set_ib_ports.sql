-- Sets the InfiniBand ports of a node, replacing the recorded ones, and enqueues the node; an empty array means that the node has
-- none. May be repeated. FR400 for malformed or too many GUIDs, FR404 for an unknown node, FR409 for a port of another node.
CREATE OR REPLACE FUNCTION farrier.set_ib_ports(node text, guids text[]) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
#variable_conflict use_column
DECLARE
    target bigint := find_node(set_ib_ports.node);
    ports text[] := ARRAY(SELECT DISTINCT ib_guid(g) FROM unnest(set_ib_ports.guids) g ORDER BY 1);
    holder text;
BEGIN
    IF set_ib_ports.guids IS NULL OR cardinality(ports) > 64 THEN
        RAISE EXCEPTION 'a node has 0 to 64 IB ports; got %', coalesce(cardinality(ports)::text, 'null')
            USING ERRCODE = 'FR400', HINT = 'Use an empty array for a node without ports.';
    END IF;
    holder := (SELECT n.name FROM node_ib_ports p JOIN nodes n ON n.id = p.node WHERE p.guids && ports AND p.node <> target LIMIT 1);
    IF holder IS NOT NULL THEN
        RAISE EXCEPTION 'node % already has one of these ports', holder
            USING ERRCODE = 'FR409', HINT = 'Correct the ports of that node first with farrier.set_ib_ports().';
    END IF;
    INSERT INTO node_ib_ports VALUES (target, ports, true)
        ON CONFLICT (node) DO UPDATE SET guids = excluded.guids, given = true;
    PERFORM enqueue('node', target);
END $$;
