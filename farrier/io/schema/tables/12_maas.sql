-- MAAS regions, and what was read in them of the machines of nodes.

-- MAAS regions: the table of kind maas_region. One row, named as the site, for each site that has one; a resource that runs, so
-- exactly one controller at a time reads it.
CREATE TABLE farrier.maas_regions (
    LIKE farrier.resources INCLUDING ALL,
    url           text        NOT NULL,                        -- of the region, as the site's file has it, without a slash at the end
    motion_every  interval    NOT NULL DEFAULT '30 seconds',   -- how often a machine that a workflow is changing is read; copied
                                                               -- from the site's file
    sweep_every   interval    NOT NULL DEFAULT '30 minutes' CHECK (sweep_every > interval '0'),
                                                               -- within what time every machine is read; copied from the site's
                                                               -- file
    username      text,                                        -- the user whose key the controllers have; null until the region
                                                               -- has said so
    identified_at timestamptz,                                 -- when the region was last asked for username
    cursor        jsonb       NOT NULL DEFAULT '{}',           -- {newest, gaps}: how far its events were read
                                                               -- (farrier.model.maas_region.Cursor)
    complete_at   timestamptz,                                 -- until when every event is known
    swept_at      timestamptz,                                 -- until when machines have had their turn to be read
    failure       text,                                        -- class of the last failure (farrier.model.maas.MaasFailure);
                                                               -- last_error may be of machines in unreadable
    failures      integer     NOT NULL DEFAULT 0,              -- consecutive failures
    next_try_at   timestamptz,                                 -- not read again before; null: no pause
    unreadable    jsonb       NOT NULL DEFAULT '{}',           -- {system_id: time}: machines that it cannot report, and when each
                                                               -- is asked for again
    since         timestamptz,                                 -- earlier readings do not count: they are from another region, or
                                                               -- were made with the key of another user
    configured_at timestamptz NOT NULL DEFAULT farrier.now()   -- when a controller last had the site in its settings, to the minute
);

-- What was last read of the machine of each node that has one. Created, unread, when the node gets the machine (watch_machine);
-- written by runs of the region, and read by those of the node.
CREATE TABLE farrier.node_observations (
    node_id     bigint      NOT NULL REFERENCES farrier.nodes,
    source      text        NOT NULL CHECK (source = 'maas'),  -- the service that was read
    site        text        NOT NULL,                          -- of the region
    system_id   text        NOT NULL,                          -- of the machine in MAAS
    state       text,                                          -- farrier.model.maas.MaasStatus; null until the first reading
    since       timestamptz,                                   -- the first of the consecutive readings that showed this state
    read_at     timestamptz,                                   -- when the last reading began
    stale_since timestamptz,                                   -- since when something has happened to the machine that the last
                                                               -- reading does not show; null if nothing has
    lost_at     timestamptz,                                   -- when a reading first showed that a machine which was there is
                                                               -- absent, although no decommission of its node was live
    detail      jsonb       NOT NULL DEFAULT '{}',             -- fields of that reading (farrier.model.maas_region.Seen)
    PRIMARY KEY (node_id, source),
    CONSTRAINT read_whole CHECK ((read_at IS NULL) = (state IS NULL) AND (read_at IS NULL) = (since IS NULL))
) WITH (fillfactor = 70);
CREATE INDEX node_observations_machine ON farrier.node_observations (site, system_id);
CREATE INDEX node_observations_turn ON farrier.node_observations (site, read_at);
CREATE INDEX node_observations_stale ON farrier.node_observations (site, stale_since) WHERE stale_since IS NOT NULL;
CREATE INDEX node_observations_state ON farrier.node_observations (site, state, read_at);
