-- Brakes: when many nodes of one site would leave service together, the cause is rather the network or the region.

-- Nodes that silence or drift took out of service, or would have but for the brake (`held`). A held node tries again, so its row
-- stays young for as long as something speaks against it. The site is '' for nodes without one.
CREATE TABLE farrier.departures (
    site text        NOT NULL,
    node bigint      NOT NULL,
    at   timestamptz NOT NULL,
    held boolean     NOT NULL,
    PRIMARY KEY (site, node)
);

-- One row a site that nodes were about to leave: the lock under which they are counted, and what was counted last.
CREATE TABLE farrier.brakes (
    site       text PRIMARY KEY,
    in_service integer     NOT NULL DEFAULT 0,
    counted_at timestamptz,
    since      timestamptz    -- the first refusal of this time
);

-- An operator let the moves of a site go on; the newest row of a site counts.
CREATE TABLE farrier.brake_lifts (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    site         text        NOT NULL,
    until        timestamptz NOT NULL,
    reason       text        NOT NULL,
    requested_by text        NOT NULL,
    at           timestamptz NOT NULL DEFAULT farrier.now()
);
CREATE INDEX brake_lifts_newest ON farrier.brake_lifts (site, id);
