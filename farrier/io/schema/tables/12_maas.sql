-- MAAS regions, and the last reading of each node's machine.

-- MAAS regions: the table of kind maas_region. A site with a region has one row, named as the site. The region is a resource with
-- runs, so exactly one controller at a time reads it.
CREATE TABLE farrier.maas_regions (
    LIKE farrier.resources INCLUDING ALL,
    url           text        NOT NULL,                        -- URL of the region from the site's file, without a slash at the end
    motion_every  interval    NOT NULL DEFAULT '30 seconds',   -- how often a machine is read while a workflow changes it; copied from
                                                               -- the site's file
    sweep_every   interval    NOT NULL DEFAULT '30 minutes' CHECK (sweep_every > interval '0'),
                                                               -- the time within which every machine is read; copied
                                                               -- from the site's file
    requires      text        NOT NULL DEFAULT 'none',         -- cleaning.require of the site's file
    username      text,                                        -- user to whom the controllers' key belongs; null until the region has
                                                               -- reported it
    identified_at timestamptz,                                 -- when a controller last read username from the region
    cursor        jsonb       NOT NULL DEFAULT '{}',           -- {newest, gaps}: how far the region's events were read
                                                               -- (farrier.model.maas.region.Cursor)
    complete_at   timestamptz,                                 -- every event before this time was read
    swept_at      timestamptz,                                 -- the sweep has read the machines that were due before this time
    failure       text,                                        -- class of the last failure (farrier.model.maas.reading.MaasFailure);
                                                               -- last_error may be about machines in unreadable
    failures      integer     NOT NULL DEFAULT 0,              -- consecutive failures
    next_try_at   timestamptz,                                 -- the region is not read before this time; null: no pause
    unreadable    jsonb       NOT NULL DEFAULT '{}',           -- {system_id: time}: machines that the region cannot report, and when
                                                               -- each is read again
    since         timestamptz,                                 -- earlier readings are invalid: they came from another region, or used
                                                               -- the key of another user
    configured_at timestamptz NOT NULL DEFAULT farrier.now()   -- when a controller last had the site in its settings, rounded to the
                                                               -- minute
);

-- The last reading of each node's machine. watch_machine inserts the row, without a reading, when the node gets the
-- machine. Runs of the region write it, and runs of the node read it.
CREATE TABLE farrier.node_observations (
    node_id     bigint      PRIMARY KEY REFERENCES farrier.nodes,
    site        text        NOT NULL,                          -- site of the region
    system_id   text        NOT NULL,                          -- ID of the machine in MAAS
    state       text,                                          -- farrier.model.maas.reading.MaasStatus; null until the first reading
    since       timestamptz,                                   -- when the first of the consecutive readings with this state began
    read_at     timestamptz,                                   -- when the last reading began
    stale_since timestamptz,                                   -- the time of the last event about the machine, or of lost events,
                                                               -- that the last reading does not include; null: none
    lost_at     timestamptz,                                   -- when a reading first reported the machine as absent
                                                               -- after an earlier reading had found it, while no
                                                               -- decommission of its node was live
    detail      jsonb       NOT NULL DEFAULT '{}',             -- fields of the last reading
                                                               -- (farrier.model.maas.reading.Recorded)
    owner_by_rescue boolean   NOT NULL DEFAULT false,          -- rescue mode gave the machine to its owner; kept until
                                                               -- the owner changes
    CONSTRAINT read_whole CHECK ((read_at IS NULL) = (state IS NULL) AND (read_at IS NULL) = (since IS NULL))
) WITH (fillfactor = 70);
CREATE INDEX node_observations_machine ON farrier.node_observations (site, system_id);
CREATE INDEX node_observations_turn ON farrier.node_observations (site, read_at);
CREATE INDEX node_observations_stale ON farrier.node_observations (site, stale_since) WHERE stale_since IS NOT NULL;
CREATE INDEX node_observations_state ON farrier.node_observations (site, state, read_at);

-- The disks of each node's machine that MAAS knows. A row is written only when the disks change, so the regular
-- readings of a fleet do not write it.
CREATE TABLE farrier.machine_disks (
    node_id   bigint PRIMARY KEY REFERENCES farrier.node_observations ON DELETE CASCADE,
    system_id text   NOT NULL,  -- the machine that has these disks
    disks     jsonb  NOT NULL   -- [{serial, size}] (farrier.model.node.evidence.Part)
);
