-- The loop: which resource runs when, what enqueued it, and what its last run returned. These tables depend on no kind.

-- One row for each resource that runs: its schedule, its queue and its lock. Narrow, and rewritten twice a run: half-full pages
-- keep an update on its page, and vacuum runs early because a claim walks over dead rows.
CREATE TABLE farrier.schedule (
    kind             text        NOT NULL,
    id               bigint      NOT NULL,
    lane             smallint    NOT NULL DEFAULT 1 CHECK (lane IN (0, 1)),
                                                      -- queue: 0 enqueued, or due at once after a transition; 1 periodic
    reruns           smallint    NOT NULL DEFAULT 0,  -- consecutive runs, each at once after a transition
    due_at           timestamptz NOT NULL CHECK (isfinite(due_at)),  -- when the next run is due; while claimed, when the lease
                                                                     -- ends
    wake_seq         bigint      NOT NULL DEFAULT 0,  -- counts wake requests
    claimed_wake_seq bigint,                          -- wake_seq as the claim found it: a higher wake_seq means that the resource
                                                      -- was enqueued during the run
    claim_token      bigint,                          -- fencing token, random; null if the row is not claimed
    owner            uuid,                            -- the controller process that has claimed it
    outcome_key      integer,                         -- checksum of the stored outcome, so that an equal one is not written again
    PRIMARY KEY (kind, id)
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.2
);
CREATE INDEX schedule_due ON farrier.schedule (kind, lane, due_at);

-- Wake requests of transactions that have not committed; apply_wakes applies and deletes them at COMMIT, all at once and in the
-- order of ids. So a schedule row is locked for the length of the COMMIT and not of the client's transaction, and two clients
-- that enqueue the same resources in opposite order cannot deadlock. No row outlives its transaction, so the table is not logged.
CREATE UNLOGGED TABLE farrier.wake_requests (
    xact  xid8    NOT NULL DEFAULT pg_current_xact_id(),    -- the transaction that enqueues the resource
    kind  text    NOT NULL,
    id    bigint  NOT NULL,
    first boolean NOT NULL DEFAULT farrier.is_first_wake()  -- of its transaction: its deferred trigger applies them all
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX wake_requests_xact ON farrier.wake_requests (xact);

-- What the last run of each resource returned; written only when that changed.
CREATE TABLE farrier.outcomes (
    kind     text        NOT NULL,
    id       bigint      NOT NULL,
    at       timestamptz NOT NULL,  -- when the outcome became this one
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
