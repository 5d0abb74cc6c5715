-- Monitors: programs of the site that state conditions of nodes, such as an Alertmanager.

-- What each monitor may state. grant_monitor and revoke_monitor write this table, and reports increment refused. The conditions of a
-- monitor have the source `monitor:NAME` in node_conditions.
CREATE TABLE farrier.monitors (
    name           text        COLLATE "C" PRIMARY KEY CHECK (length(name) <= 63 AND name ~ '^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$'),
                                                               -- also the name of the monitor's token of the HTTP API
    login          text        UNIQUE,                         -- the session_user of the monitor; null: it uses only the HTTP API
    sites          text[]      NOT NULL,                       -- patterns of the sites of its nodes
    ids            text[]      NOT NULL,                       -- patterns of the IDs of its conditions
    effect         text        NOT NULL CHECK (effect IN ('note', 'quarantine')),
                                                               -- the highest effect that it may request
    lasts          interval    NOT NULL CHECK (lasts BETWEEN interval '1 minute' AND interval '30 days'),
                                                               -- after this time, a condition that is not stated again is unknown,
                                                               -- unless the report has another time
    labels         jsonb       NOT NULL,                       -- which labels of an alert name what, where they differ from the
                                                               -- defaults of farrier.model.alerts
    brake_share    numeric     CHECK (brake_share BETWEEN 0 AND 1),  -- as node.brake_share, for this monitor; null: that setting
    brake_at_least integer     CHECK (brake_at_least >= 1),    -- as node.brake_at_least, for this monitor; null: that setting
    refused        bigint      NOT NULL DEFAULT 0,             -- reports that were not taken, in total
    granted_at     timestamptz NOT NULL DEFAULT farrier.now(),
    granted_by     text        NOT NULL DEFAULT session_user   -- the session_user that called grant_monitor
);

-- Reports of monitors that were not taken: the newest hundred of each monitor, one row for the reports of one condition.
CREATE TABLE farrier.monitor_refusals (
    monitor  text        COLLATE "C" NOT NULL REFERENCES farrier.monitors ON DELETE CASCADE,
    node     text        COLLATE "C" NOT NULL,             -- as the monitor named it, or its serial number; '': it named none
    id       text        COLLATE "C" NOT NULL,             -- '': the report named no condition
    target   text        COLLATE "C" NOT NULL,
    verdict  text        NOT NULL,                         -- of the last report, as in record_reports; truncated: a part of a group of
                                                           -- alerts was missing
    reason   text        NOT NULL,                         -- of the last report
    times    bigint      NOT NULL DEFAULT 1,               -- reports since first_at
    first_at timestamptz NOT NULL DEFAULT farrier.now(),
    last_at  timestamptz NOT NULL DEFAULT farrier.now(),
    PRIMARY KEY (monitor, node, id, target)
);
-- For nodes that a monitor names by their serial number.
CREATE INDEX node_identities_serial ON farrier.node_identities ((substr(value, strpos(value, '/') + 1))) WHERE kind = 'serial';
