-- Which segments and partitions a node is to use, and through which ports.

-- What a node is to use, by name: one that does not exist yet may come.
CREATE TABLE farrier.node_uses (
    node bigint NOT NULL REFERENCES farrier.nodes,
    kind text   NOT NULL CHECK (kind IN ('network_segment', 'ib_partition')),
    name text   NOT NULL,
    PRIMARY KEY (node, kind, name)
);
CREATE INDEX node_uses_name ON farrier.node_uses (kind, name);

-- InfiniBand ports of nodes; no row: not known; an empty array: it has none. Apart from the nodes' own rows, which only the
-- loop writes: whoever else held one until COMMIT would wait there for a wake that the loop's commit, waiting for it, keeps.
CREATE TABLE farrier.node_ib_ports (
    node  bigint  PRIMARY KEY REFERENCES farrier.nodes,
    guids text[]  NOT NULL CHECK (farrier.are_guids(guids)),
    given boolean NOT NULL   -- by set_ib_ports; else the agent told, as it enrolled
);
CREATE INDEX node_ib_ports_guids ON farrier.node_ib_ports USING gin (guids);
