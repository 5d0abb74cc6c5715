-- Which segments and partitions a node is to use, and through which ports.

-- Segments and partitions that a node is to use, by name: one that does not exist may be created later. Written by use_networks.
CREATE TABLE farrier.node_uses (
    node bigint NOT NULL REFERENCES farrier.nodes,
    kind text   NOT NULL CHECK (kind IN ('network_segment', 'ib_partition')),  -- which of the two
    name text   NOT NULL,  -- of the segment or partition
    PRIMARY KEY (node, kind, name)
);
CREATE INDEX node_uses_name ON farrier.node_uses (kind, name);

-- InfiniBand ports of nodes; no row for a node whose ports are not known. A table of its own, because only the loop writes nodes:
-- a client that held a row of nodes would hold up the commits of its runs.
CREATE TABLE farrier.node_ib_ports (
    node  bigint  PRIMARY KEY REFERENCES farrier.nodes,
    guids text[]  NOT NULL CHECK (farrier.are_guids(guids)),  -- sorted; empty: the node has none
    given boolean NOT NULL                                    -- by set_ib_ports; false: reported by the agent as it enrolled
);
CREATE INDEX node_ib_ports_guids ON farrier.node_ib_ports USING gin (guids);
