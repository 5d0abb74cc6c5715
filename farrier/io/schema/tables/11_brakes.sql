-- Brakes: if many nodes of one site would leave service together, the likely cause is the network or the region, not the nodes.

-- Nodes that left service for a cause within the brake's window, or would have left without the
-- brake. Each cause of a site counts on its own. A held node
-- retries every brake_retry, so its row stays recent while the cause lasts. farrier.departing has the rows that count.
CREATE TABLE farrier.departures (
    site text        NOT NULL,  -- '' for nodes without a site
    source text      COLLATE "C" NOT NULL,  -- cause: the source of a condition, or silence
    node bigint      NOT NULL,  -- nodes.id
    at   timestamptz NOT NULL,  -- when the node last left service, or last tried to
    held boolean     NOT NULL,  -- the brake refused the change: the node is still in service
    PRIMARY KEY (site, node, source)
);

-- One row for each site and cause with nodes that were about to leave service: the lock under which they are counted, and the last count.
CREATE TABLE farrier.brakes (
    site       text        NOT NULL,            -- '' for nodes without a site
    source     text        COLLATE "C" NOT NULL,  -- cause of the departures
    in_service integer     NOT NULL DEFAULT 0,  -- at the last count, active nodes of the site and nodes in departures
    departed   integer     NOT NULL DEFAULT 0,  -- rows of the site and cause in departures: a running total, so that a commit reads only the
                                                -- rows of its own nodes
    counted_at timestamptz,                     -- when in_service and departed were counted
    since      timestamptz,                     -- when the brake began to hold nodes, this time or the last time
    PRIMARY KEY (site, source)
);

-- Nodes that a brake holds according to history, with the cause. farrier.end_holds removes the rows when no brake holds the node any more.
CREATE TABLE farrier.held_nodes (
    node   bigint NOT NULL,                   -- nodes.id
    source text   COLLATE "C" NOT NULL,  -- cause of the departure that the brake refused
    PRIMARY KEY (node, source)
);

-- Lifts of brakes by operators; the newest row of a site is in force.
CREATE TABLE farrier.brake_lifts (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    site         text        NOT NULL,  -- '' for nodes without a site
    until        timestamptz NOT NULL,  -- until when any number of nodes may leave
    reason       text        NOT NULL,  -- text of the operator
    requested_by text        NOT NULL,  -- name that the operator gave, else session_user
    at           timestamptz NOT NULL DEFAULT farrier.now()
);
CREATE INDEX brake_lifts_newest ON farrier.brake_lifts (site, id);
