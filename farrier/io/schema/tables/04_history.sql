-- Every change of a layer, and how old changes are removed.

-- One row for each change of a layer, for ever by default. claim_token tells a commit whose reply was lost from one
-- that never happened.
CREATE TABLE farrier.history (
    kind              text        NOT NULL,
    id                bigint      NOT NULL,
    version           bigint      NOT NULL,
    layer             text        NOT NULL,
    from_value        text,
    to_value          text        NOT NULL,
    at                timestamptz NOT NULL,
    seconds_in_source double precision,
    cause             text        NOT NULL,
    reason            text        NOT NULL,
    source            text        NOT NULL,
    controller        uuid        NOT NULL,
    claim_token       bigint      NOT NULL,
    PRIMARY KEY (kind, id, version, layer)
) WITH (
    -- A fifth of ten million rows, the default, is much for one vacuum.
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 10000
);
-- Pages by time: one statement writes up to a hundred thousand rows with the same `at`, so `at` alone would sort all of them
-- for every page. Of one id there are a handful at most.
CREATE INDEX history_time ON farrier.history (at, id);

-- The one pass over old history: how far it is, and when its next step is due. Whoever holds the row takes the step, so any
-- number of replicas share one pass, and one that dies leaves it where it was.
CREATE TABLE farrier.history_retention (
    only_one    boolean     PRIMARY KEY DEFAULT true CHECK (only_one),
    due_at      timestamptz NOT NULL DEFAULT farrier.now(),
    began_at    timestamptz,                       -- null between passes
    looked      bigint      NOT NULL DEFAULT 0,    -- of this pass, or the last
    deleted     bigint      NOT NULL DEFAULT 0,
    at          timestamptz,                       -- the row that was looked at last
    id          bigint,
    version     bigint,
    kind        text,
    layer       text
);

INSERT INTO farrier.history_retention DEFAULT VALUES;
