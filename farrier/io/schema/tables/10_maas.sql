-- MAAS regions, and what they last said of the machines of nodes.

-- One row for each site that has a region: a resource of its own, so exactly one replica observes it. How often it is to
-- be looked at is copied from the site's file, because what is due is found here.
CREATE TABLE farrier.maas_regions (
    id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    site             text        NOT NULL UNIQUE,
    url              text        NOT NULL DEFAULT '',
    motion_every     interval    NOT NULL DEFAULT '30 seconds',
    sweep_every      interval    NOT NULL DEFAULT '30 minutes' CHECK (sweep_every > interval '0'),
    version          bigint      NOT NULL DEFAULT 1,
    state            text        NOT NULL DEFAULT 'starting',
    state_entered_at timestamptz NOT NULL DEFAULT farrier.now(),
    username         text,                 -- whom our key belongs to
    identified_at    timestamptz,          -- when that was asked
    cursor           jsonb       NOT NULL DEFAULT '{}',  -- how far its events were read
    complete_at      timestamptz,          -- until when every event is known
    swept_at         timestamptz,          -- when machines were last read only because it was their turn
    last_error       text,
    failure          text,
    failures         integer     NOT NULL DEFAULT 0,
    next_try_at      timestamptz,
    unreadable       jsonb       NOT NULL DEFAULT '{}',  -- machines that it cannot tell of, and when to ask again
    since            timestamptz,          -- what was read earlier is another region's, or was judged by another user's key
    created_at       timestamptz NOT NULL DEFAULT farrier.now(),
    configured_at    timestamptz           -- when a controller last had the site in its settings, to the minute
) WITH (fillfactor = 50);

-- The last word on the machine of each node that has one. There from the moment the node has a machine; read_at is null
-- until it was read. Written by observers alone. `since` is the first reading that showed this state, `read_at` the last;
-- `stale_since` says that something happened after it that is not in it, `lost_at` when a machine that was there was not
-- there any more although no decommission was at it.
CREATE TABLE farrier.node_observations (
    node_id     bigint      NOT NULL REFERENCES farrier.nodes,
    source      text        NOT NULL CHECK (source = 'maas'),
    site        text        NOT NULL,
    system_id   text        NOT NULL,
    state       text,
    since       timestamptz,
    read_at     timestamptz,
    stale_since timestamptz,
    lost_at     timestamptz,
    detail      jsonb       NOT NULL DEFAULT '{}',
    PRIMARY KEY (node_id, source),
    CONSTRAINT read_whole CHECK ((read_at IS NULL) = (state IS NULL) AND (read_at IS NULL) = (since IS NULL))
) WITH (fillfactor = 70);
CREATE INDEX node_observations_machine ON farrier.node_observations (site, system_id);
CREATE INDEX node_observations_turn ON farrier.node_observations (site, read_at);
CREATE INDEX node_observations_stale ON farrier.node_observations (site, stale_since) WHERE stale_since IS NOT NULL;
CREATE INDEX node_observations_undeployed ON farrier.node_observations (site, read_at) WHERE state <> 'deployed';
