-- Brakes: when many nodes of one site would leave service together, the cause is rather the network or the region.

-- Nodes that silence or drift took out of service within the brake's window, or would have but for the brake. A held node tries
-- again, so its row stays young for as long as the cause lasts.
CREATE TABLE farrier.departures (
    site text        NOT NULL,  -- '' for nodes without a site
    node bigint      NOT NULL,  -- nodes.id
    at   timestamptz NOT NULL,  -- when it last left, or tried to
    held boolean     NOT NULL,  -- the brake refused it: the node is still in service
    PRIMARY KEY (site, node)
);

-- One row for each site that nodes were about to leave: the lock under which they are counted, and the last count.
CREATE TABLE farrier.brakes (
    site       text PRIMARY KEY,                -- '' for nodes without a site
    in_service integer     NOT NULL DEFAULT 0,  -- active nodes of the site and those in departures, as counted last
    departed   integer     NOT NULL DEFAULT 0,  -- rows of the site in departures: a running figure, so that a commit reads only its
                                                -- own
    counted_at timestamptz,                     -- when both were counted
    since      timestamptz                      -- when the brake began to hold nodes, now or the last time
);

-- Lifts of brakes by operators; the newest row of a site is in force.
CREATE TABLE farrier.brake_lifts (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    site         text        NOT NULL,  -- '' for nodes without a site
    until        timestamptz NOT NULL,  -- until when any number of nodes may leave
    reason       text        NOT NULL,  -- given by the operator
    requested_by text        NOT NULL,  -- given by the operator, else session_user
    at           timestamptz NOT NULL DEFAULT farrier.now()
);
CREATE INDEX brake_lifts_newest ON farrier.brake_lifts (site, id);
