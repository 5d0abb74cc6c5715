-- The segments, partitions and InfiniBand ports of each node.

-- Segments and partitions that a node uses, by name: a segment or partition may be created later. use_networks writes the rows.
CREATE TABLE farrier.node_uses (
    node bigint NOT NULL REFERENCES farrier.nodes,
    kind text   NOT NULL CHECK (kind IN ('network_segment', 'ib_partition')),  -- whether it is a segment or a partition
    name text   NOT NULL,  -- name of the segment or partition
    PRIMARY KEY (node, kind, name)
);
CREATE INDEX node_uses_name ON farrier.node_uses (kind, name);

-- InfiniBand ports of nodes; no row for a node whose ports are unknown. It is a separate table, because a client that
-- locked a row of nodes would delay the commits of the node's runs; only the loop writes nodes.
CREATE TABLE farrier.node_ib_ports (
    node  bigint  PRIMARY KEY REFERENCES farrier.nodes,
    guids text[]  NOT NULL CHECK (farrier.are_guids(guids)),  -- sorted; empty: the node has none
    given boolean NOT NULL                                    -- set by set_ib_ports; false: reported by the agent when it enrolled
);
CREATE INDEX node_ib_ports_guids ON farrier.node_ib_ports USING gin (guids);
