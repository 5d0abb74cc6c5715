-- The loop: which controller runs what, what is to be run at once, and what the last run returned. These tables depend on no kind.

-- One row for each daemon that runs, renewed every two seconds: with pulse, all that is written while nothing happens.
CREATE TABLE farrier.controllers (
    id         uuid        PRIMARY KEY,                         -- made by the daemon when it joins
    name       text        NOT NULL,                            -- host name, for people
    release    text        NOT NULL,                            -- version of farrier
    kinds      text[]      NOT NULL,                            -- the kinds that it runs
    lags       float8[]    NOT NULL,                            -- of each kind: seconds by which its latest run is overdue
    started_at timestamptz NOT NULL,
    renewals   bigint      NOT NULL DEFAULT 0,                  -- others declare the daemon dead when this stands still
    renewed_at timestamptz NOT NULL DEFAULT farrier.now(),
    expired    boolean     NOT NULL DEFAULT false               -- declared dead: it can renew no more, others take its shards
) WITH (fillfactor = 50);

-- The owner of each part of the resources of a kind. A controller that takes a shard increments its epoch; what it writes is
-- fenced by both.
CREATE TABLE farrier.shards (
    kind  text     NOT NULL,
    shard smallint NOT NULL,            -- shard_of(id) of its resources
    owner uuid,                         -- a controller; null if the last one gave it back
    epoch bigint   NOT NULL DEFAULT 0,
    PRIMARY KEY (kind, shard)
) WITH (fillfactor = 50);

-- Resources to run at once. A wake is inserted and deleted, and locks no other row. The run whose snapshot saw what the wake was
-- inserted for deletes it.
CREATE TABLE farrier.wakes (
    kind     text        NOT NULL,
    resource bigint      NOT NULL,
    id       uuid        NOT NULL DEFAULT gen_random_uuid(),  -- not a sequence: its numbers are given out again after a crash
    xact     xid8        NOT NULL DEFAULT pg_current_xact_id(),
    at       timestamptz NOT NULL DEFAULT farrier.now(),
    PRIMARY KEY (kind, resource, id)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0,
        -- Of a table without pages, plans read all rows, and are kept when it has some again.
        vacuum_truncate = false);
-- For the poll: what transactions since the last one have inserted. Not (kind, xact): a plan that was made while the table was
-- empty would find the wakes of a few resources in it, by kind alone.
CREATE INDEX wakes_xact ON farrier.wakes (xact);

-- The steps of each controller, from before they begin until shortly after their ends are recorded. The row outlives its controller:
-- the owners of the shards recover from its steps and remove them. View effects has a row for each step.
CREATE TABLE farrier.marks (
    controller uuid   NOT NULL,
    kind       text   NOT NULL,
    number     bigint NOT NULL, -- of the statement that wrote it; one with a lower number comes too late
    steps      jsonb  NOT NULL, -- resource: {step, begun_at}
    PRIMARY KEY (controller, kind)
) WITH (fillfactor = 50);

-- What the last run of each resource returned; written only when that changed.
CREATE TABLE farrier.outcomes (
    kind     text        NOT NULL,
    id       bigint      NOT NULL,
    at       timestamptz NOT NULL,  -- when the outcome became this one
    key      integer,               -- checksum of the outcome, so that an equal one is not written again
    outcome  jsonb       NOT NULL,  -- {outcome, reason, source, error}: which one, why, the source line that made it, and the
                                    -- label of an error in which the run ended or for whose end it waits
    error    text        GENERATED ALWAYS AS (outcome ->> 'error') STORED,  -- a column of its own for the index
    error_at timestamptz,           -- since when every run has ended in this error; kept while the rest of the outcome changes
    PRIMARY KEY (kind, id)
);
CREATE INDEX outcomes_failing ON farrier.outcomes (kind, error) WHERE error IS NOT NULL;

-- Locks of things that have no row of their own: a row for each that was ever locked. Only functions of the owner lock them,
-- unlike advisory locks, which any login may hold. They need not outlive a crash, so the table is not logged.
CREATE UNLOGGED TABLE farrier.locks (
    purpose text   NOT NULL,  -- what is locked: bmc_login, segment_prefixes or segment_number
    key     bigint NOT NULL,  -- hash of which one
    PRIMARY KEY (purpose, key)
);
