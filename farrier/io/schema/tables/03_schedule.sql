-- The loop: which resource runs when, what woke it, and what its last run returned. Knows no kind of resource.

-- One row is the schedule, the queue and the lock of one resource. Narrow, and rewritten twice a run: half-full pages
-- keep an update on its page, and vacuum comes early because a claim walks over what it has not removed yet.
CREATE TABLE farrier.schedule (
    kind             text        NOT NULL,
    id               bigint      NOT NULL,
    lane             smallint    NOT NULL DEFAULT 1 CHECK (lane IN (0, 1)),  -- 0 woken, 1 periodic
    reruns           smallint    NOT NULL DEFAULT 0,                         -- in a row, because of transitions
    due_at           timestamptz NOT NULL CHECK (isfinite(due_at)),          -- lag is measured from it; while claimed, the lease's end
    wake_seq         bigint      NOT NULL DEFAULT 0,
    claimed_wake_seq bigint,                                                 -- wake_seq as the claim took it
    claim_token      bigint,                                                 -- fencing token, random; null when nobody holds the row
    owner            uuid,                                                   -- the process that holds it
    outcome_key      integer,                                                -- checksum of the stored outcome: an unchanged one is not written again
    PRIMARY KEY (kind, id)
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.2
);
CREATE INDEX schedule_due ON farrier.schedule (kind, lane, due_at);

-- Wakes asked for in a transaction, kept only until its COMMIT. They are applied there, all at once and in the order
-- of ids: a schedule row is locked for the length of the COMMIT and not of the client's transaction, and two clients
-- that wake the same resources in opposite order cannot deadlock. No row outlives its transaction, so none is logged.
CREATE UNLOGGED TABLE farrier.wake_requests (
    xact  xid8    NOT NULL DEFAULT pg_current_xact_id(),
    kind  text    NOT NULL,
    id    bigint  NOT NULL,
    first boolean NOT NULL DEFAULT farrier.is_first_wake()  -- of its transaction: it applies them all
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX wake_requests_xact ON farrier.wake_requests (xact);

-- What the last run of each resource said; written only when it changed.
CREATE TABLE farrier.outcomes (
    kind     text        NOT NULL,
    id       bigint      NOT NULL,
    at       timestamptz NOT NULL,
    outcome  jsonb       NOT NULL,
    error    text        GENERATED ALWAYS AS (outcome ->> 'error') STORED,  -- in which the last run ended; apart, for its index
    error_at timestamptz,  -- since when every run ends in this error; kept while other parts of the outcome change
    PRIMARY KEY (kind, id)
);
CREATE INDEX outcomes_failing ON farrier.outcomes (kind, error) WHERE error IS NOT NULL;

-- Locks of things that have no row of their own: a row for each that was ever locked, by purpose and hash. Only the functions of
-- the owner lock them, unlike advisory locks, which any login may hold. They need not outlive a crash, so the table is not logged.
CREATE UNLOGGED TABLE farrier.locks (
    purpose text   NOT NULL,
    key     bigint NOT NULL,
    PRIMARY KEY (purpose, key)
);
