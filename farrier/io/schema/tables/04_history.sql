-- Every change of a layer of a resource, and the pass that removes old changes.

-- One row for each change of a layer, and for its beginning. Kept for ever, unless a controller is configured to remove old rows.
CREATE TABLE farrier.history (
    kind              text             NOT NULL,
    id                bigint           NOT NULL,
    version           bigint           NOT NULL,  -- version of the resource after the change
    layer             text             NOT NULL,  -- of a node: status, management, onboarding, onboarding_stage, decommission,
                                                  -- decommission_stage, details.NAME for a value that intent `set` changed, or
                                                  -- brake, which holds the node or leaves it free; of any other kind: one of
                                                  -- farrier.kind_layers
    from_value        text,                       -- null for the beginning of a layer
    to_value          text             NOT NULL,
    at                timestamptz      NOT NULL,
    seconds_in_source double precision,           -- how long the layer had been in from_value; null for a beginning, details and brake
    cause             text             NOT NULL,  -- why the run made the change: `intent ID`, `stage: NAME`, ...
    requested_by      text,                       -- name of the client that asked for the change, or else its login; null if nobody did
    reason            text             NOT NULL,  -- explanation for operators
    source            text             NOT NULL,  -- the source line that made the decision; for a change that a function recorded,
                                                  -- its name or `database`
    controller        uuid             NOT NULL,  -- the process that committed the change; zero for the database
    epoch             bigint           NOT NULL,  -- epoch of the resource's shard; 0 for the database
    PRIMARY KEY (kind, id, version, layer)
) WITH (
    -- The default of a fifth would make one vacuum of ten million rows too long.
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 10000
);
-- For pages by time. One statement writes up to a hundred thousand rows with the same `at`, and an index on `at` alone would sort all
-- of them for every page. One id has at most a handful of these rows.
CREATE INDEX history_time ON farrier.history (at, id);

-- One row: the progress of the pass over old history. A transaction that locks the row executes the next step, so all
-- controllers share one pass. A transaction that fails leaves the row unchanged.
CREATE TABLE farrier.history_retention (
    only_one    boolean     PRIMARY KEY DEFAULT true CHECK (only_one),
    due_at      timestamptz NOT NULL DEFAULT farrier.now(),  -- when the next step is due
    began_at    timestamptz,                                 -- when this pass began; null between passes
    looked      bigint      NOT NULL DEFAULT 0,              -- rows examined in this pass; between passes, in the last
                                                             -- pass
    deleted     bigint      NOT NULL DEFAULT 0,              -- rows deleted in the same pass
    at          timestamptz,                                 -- key of the row that was examined last: at, id, version, kind,
                                                             -- layer; null between passes
    id          bigint,                                      -- see at
    version     bigint,                                      -- see at
    kind        text,                                        -- see at
    layer       text                                         -- see at
);

INSERT INTO farrier.history_retention DEFAULT VALUES;
