-- The schema of farrier 0.1.0, version 1 of its tables, as a new database has it. Printed by
-- `farrier db schema` from the files in farrier/io/schema; edit those files to change it.
--
-- Tables come first, by topic; then functions, views and triggers, each by topic; then the rights of each role.
-- Topics without tables come first; the other topics are in the order of their tables. If the server reads an object
-- when it creates another object, the object that it reads comes first. These objects are the functions in a default or
-- a check of a table, and the objects that a view or a function with RETURN mentions. All other functions have their
-- bodies in strings, which the server reads when the functions are called.
--
-- psql loads this text into an empty database of a server that has the roles (`farrier db roles`). Such a database
-- serves reviews and experiments. It lacks the record of its version and the rows that mirror the model, so farrier
-- refuses to work with it. Use `farrier db migrate` to create a database for farrier.
--
-- topic         functions      views   triggers   tables, roles
-- core                 10
-- rights                3                         0_public, farrier_agent, farrier_controller, farrier_intents,
--                                                 farrier_reader, farrier_worker
-- schema                                          migrator, schema_steps, schema_set, schema_objects
-- time                  9          1              pulse, pulse_gaps, mends
-- model                                           edges, workflow_mapping, workflow_statuses, workflow_modes,
--                                                 contradictions, actions, advice, constants, settings, clock_stops,
--                                                 limits
-- loop                 16          2          2   controllers, shards, wakes, marks, outcomes, locks
-- history               3                         history, history_retention
-- nodes                35          6         11   nodes, node_macs, node_bmcs, bmc_logins, node_identities
-- workflows             6                    12   node_onboardings, node_decommissions
-- agents               11                     1   bootstrap_tokens, node_agents
-- tasks                18                         task_types, node_tasks, workers
-- intents              10          1          3   intents
-- kinds                27                     1   kinds, kind_layers, kind_states, kind_actions, resources, callable
-- brakes                5          2              departures, brakes, brake_lifts
-- maas                  8          1              maas_regions, node_observations
-- requests              5                     3   resource_intents
-- numbers               3                     1   number_pools, pool_numbers, freed_numbers
-- segments             19                     7   network_segments, segment_usage, segment_prefixes, segment_free,
--                                                 segment_addresses
-- partitions           12                     7   ib_partitions, ib_members
-- networks             12                         node_uses, node_ib_ports

BEGIN;
SET LOCAL check_function_bodies = off;

-- =====================================================================================================================
-- Tables: schema
-- =====================================================================================================================

-- The version to which this database was migrated, and the program that migrated it. Every migration creates these
-- tables first, even in a database that has them; hence IF NOT EXISTS.

CREATE SCHEMA IF NOT EXISTS farrier;

-- One row: the session that migrates this database, if any. A session that has ended does not count.
CREATE TABLE IF NOT EXISTS farrier.migrator (
    only_one      boolean PRIMARY KEY DEFAULT true CHECK (only_one),
    pid           integer,     -- process ID of the session; null: no session migrates
    login         text,        -- login of the session
    backend_start timestamptz  -- when the session began; a later session may have the same pid
);

-- The versions of the tables. 1 is the baseline; each later version is a step between two releases, which was applied
-- here or is part of the baseline from which this database was created.
CREATE TABLE IF NOT EXISTS farrier.schema_steps (
    version    integer     PRIMARY KEY,
    name       text        NOT NULL,                               -- name of the step's file; `baseline` for 1
    checksum   text        NOT NULL,                               -- SHA-256 of the step, or of the baseline's tables
    applied_at timestamptz NOT NULL DEFAULT statement_timestamp()  -- farrier.now() does not exist yet
);

-- One row: the set of functions, views, triggers and rights that was applied last.
CREATE TABLE IF NOT EXISTS farrier.schema_set (
    only_one   boolean     PRIMARY KEY DEFAULT true CHECK (only_one),
    hash       text        NOT NULL,  -- hash of the sources in schema_objects, and of the comments in the baseline
    tables     text        NOT NULL,  -- hash of the baseline of the program that applied the set
    release    text        NOT NULL,  -- release of that program
    server     integer     NOT NULL,  -- major version of PostgreSQL, on which schema_objects.definition depends
    applied_at timestamptz NOT NULL DEFAULT statement_timestamp()
);

-- The members of the set in schema_set. An object that is listed here belongs to farrier: the next migration replaces
-- it, or drops it if its set lacks it. Only the owner of the schema, and roles to which an operator granted the right,
-- may write here.
CREATE TABLE IF NOT EXISTS farrier.schema_objects (
    kind       text NOT NULL CHECK (kind IN ('function', 'view', 'trigger', 'rights')),
    name       text NOT NULL,  -- name of the object's file; TABLE.TRIGGER for a trigger
    source     text NOT NULL,  -- text of the object's file
    definition text,           -- hash of the definition that the server made of the source; null for rights
    signature  text,           -- parameters and result of a function, as the server writes them; null for other objects
    PRIMARY KEY (kind, name)
);

-- =====================================================================================================================
-- Tables: time
-- =====================================================================================================================

-- Returns the time of the database. SQL reads the time only here: a test database replaces this function to move its
-- clock.
CREATE OR REPLACE FUNCTION farrier.now() RETURNS timestamptz
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN statement_timestamp();

-- Time: the pulse by which controllers notice a clock that was set back and the end of an outage, and the mends of stored times.

-- One row: when a controller last committed a pulse.
CREATE TABLE farrier.pulse (
    one boolean     PRIMARY KEY DEFAULT true CHECK (one),
    at  timestamptz NOT NULL  -- earlier than the previous pulse only if the clock was set back
);

-- The gaps of more than 10 seconds between pulses, of the last week. In such a gap, the database or all controllers were away.
CREATE TABLE farrier.pulse_gaps (
    until  timestamptz PRIMARY KEY,  -- the first pulse after the gap
    lasted interval    NOT NULL
);

INSERT INTO farrier.pulse (at) VALUES (farrier.now());

-- Setbacks of the clock whose stored times are not mended yet. The mend goes through the tables in the order of farrier.mendable().
CREATE TABLE farrier.mends (
    id       bigint   GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    back     interval NOT NULL,                                    -- by how much the clock was set back
    noticed  xid      NOT NULL DEFAULT pg_current_xact_id()::xid,  -- rows that were written later have correct times
    place    text     NOT NULL DEFAULT '',                         -- the table that is being mended, named as in mendable(); ''
                                                                   -- before the first table
    after    bigint                                                -- the last id that was mended in that table; null once the table
                                                                   -- is finished
);

-- =====================================================================================================================
-- Tables: model
-- =====================================================================================================================

-- The model and the configuration, for triggers, functions and views. Migrations and controllers write these tables; do not edit them
-- by hand.

-- The changes that a layer of a resource may make. Triggers refuse all other changes.
CREATE TABLE farrier.edges (
    kind       text NOT NULL,  -- one of farrier.kinds
    layer      text NOT NULL,  -- one of farrier.kind_layers
    from_value text NOT NULL,
    to_value   text NOT NULL,
    PRIMARY KEY (kind, layer, from_value, to_value)
);

-- The status of a node for each status of its workflow, both while the workflow is live and in the commit that ends it; see
-- check_pair.
CREATE TABLE farrier.workflow_mapping (
    kind            text NOT NULL,  -- onboarding or decommission; none, also as the status, for a node without a live workflow
    workflow_status text NOT NULL,
    node_status     text NOT NULL,
    PRIMARY KEY (kind, workflow_status, node_status)
);

-- Properties of each status of a workflow, the same for both kinds.
CREATE TABLE farrier.workflow_statuses (
    status    text    PRIMARY KEY,
    ended     boolean NOT NULL,  -- the workflow has ended
    succeeded boolean NOT NULL,  -- the workflow reached its goal
    failed    boolean NOT NULL,  -- the workflow waits for another attempt or for an operator
    at_work   boolean NOT NULL   -- the workflow goes on without an operator
);

-- The modes of workflows of both kinds.
CREATE TABLE farrier.workflow_modes (
    mode      text    PRIMARY KEY,
    uses_maas boolean NOT NULL      -- a workflow of this mode sends requests to MAAS
);

-- States of a machine in MAAS that contradict its node. Drift takes such a node out of service. A node that drift quarantined stays
-- quarantined while the state lasts.
CREATE TABLE farrier.contradictions (
    state    text   PRIMARY KEY,  -- as in node_observations
    statuses text[] NOT NULL,     -- statuses of nodes in service that the state contradicts
    causes   text[] NOT NULL      -- causes of the quarantines that last while the machine is in this state
);

-- The actions of intents for nodes, in addition to their rows in kind_actions.
CREATE TABLE farrier.actions (
    action       text    PRIMARY KEY,
    since        integer NOT NULL,  -- the version of the API in which it was added
    while_paused boolean NOT NULL   -- the intent is handled even while the node is paused
);

-- The recommended action for each failure.
CREATE TABLE farrier.advice (
    failure text PRIMARY KEY,  -- a failure class, or quarantine:CAUSE, or bmc:FAILURE
    action  text NOT NULL      -- text for operators
);

-- One row: constants of the model that functions read. Only migrations write it.
CREATE TABLE farrier.constants (
    only_one              boolean  PRIMARY KEY DEFAULT true CHECK (only_one),
    api_min               integer  NOT NULL,  -- the oldest version of the intent API that is supported
    api_max               integer  NOT NULL,  -- the newest version of the intent API that is supported
    confirmed_after       interval NOT NULL,  -- two readings of a machine at least this far apart confirm a state that both show
    login_cap             integer  NOT NULL,  -- failed logins that one BMC may receive within login_window
    login_window          interval NOT NULL,
    ssh_seed_limit        integer  NOT NULL,  -- failed SSH seeds in a row after which a node is unhealthy
    identity_placeholders text[]   NOT NULL,  -- values that vendors ship in place of serial numbers and UUIDs
    brake_retry           interval NOT NULL   -- after this time, farrier tries again to take a held node out of service
);

-- One row: settings that functions read. A migration writes the defaults, and each controller writes its own settings when it starts.
CREATE TABLE farrier.settings (
    only_one       boolean  PRIMARY KEY DEFAULT true CHECK (only_one),
    offline_after  interval NOT NULL,  -- node.offline_after
    brake_share    numeric  NOT NULL,  -- node.brake_share
    brake_at_least integer  NOT NULL,  -- node.brake_at_least
    brake_window   interval NOT NULL   -- node.brake_window
);

-- Conditions that stop the clock of a limit: the clock does not run in this state while the fact has this value; see still_clocks.
CREATE TABLE farrier.clock_stops (
    kind  text NOT NULL,  -- node, management or onboarding
    state text NOT NULL,
    fact  text NOT NULL,  -- management, manage_asked, onboarding (status of the newest onboarding) or has_mode
    value text NOT NULL,
    PRIMARY KEY (kind, state, fact, value)
);

-- The limits in force: how long a node and its workflow may stay in a state. A migration writes the defaults, and each controller
-- writes those of its settings when it starts.
CREATE TABLE farrier.limits (
    kind     text     NOT NULL,  -- node, management, onboarding or decommission
    state    text     NOT NULL,  -- end_to_end for the clock of a whole workflow
    substate text     NOT NULL,  -- stage of a running workflow; else empty
    scope    text     NOT NULL CHECK (scope IN ('', 'model', 'site')),  -- '' for all nodes; a limit of the site takes
                                                                        -- precedence over a limit of the model, and that
                                                                        -- over a limit for all nodes
    name     text     NOT NULL,  -- name of the site or model; else empty
    lasts    interval NOT NULL,
    PRIMARY KEY (kind, state, substate, scope, name)
);

-- =====================================================================================================================
-- Tables: loop
-- =====================================================================================================================

-- The loop: which controller runs which resources, which resources are enqueued, and the outcome of the last run. These tables depend
-- on no kind.

-- One row for each running daemon, renewed every two seconds. While nothing happens, only these rows and farrier.pulse are written.
CREATE TABLE farrier.controllers (
    id         uuid        PRIMARY KEY,                         -- generated by the daemon when it joins
    name       text        NOT NULL,                            -- host name, for people
    release    text        NOT NULL,                            -- version of farrier
    kinds      text[]      NOT NULL,                            -- the kinds that it runs
    lags       float8[]    NOT NULL,                            -- for each kind, the seconds by which its latest run is overdue
    started_at timestamptz NOT NULL,
    renewals   bigint      NOT NULL DEFAULT 0,                  -- other controllers declare the daemon dead when this
                                                                -- number does not increase
    renewed_at timestamptz NOT NULL DEFAULT farrier.now(),
    expired    boolean     NOT NULL DEFAULT false               -- declared dead: it can no longer renew, and other controllers take
                                                                -- its shards
) WITH (fillfactor = 50);

-- The owner of each shard of the resources of a kind. A controller that takes a shard increments its epoch. Writes of the controller
-- are fenced by owner and epoch.
CREATE TABLE farrier.shards (
    kind  text     NOT NULL,
    shard smallint NOT NULL,            -- shard_of(id) of its resources
    owner uuid,                         -- a controller; null if the last owner gave the shard back
    epoch bigint   NOT NULL DEFAULT 0,
    PRIMARY KEY (kind, shard)
) WITH (fillfactor = 50);

-- Resources to run at once. A wake is inserted and deleted, and locks no other row. A run deletes a wake once its snapshot includes
-- the change for which the wake was inserted.
CREATE TABLE farrier.wakes (
    kind     text        NOT NULL,
    resource bigint      NOT NULL,
    id       uuid        NOT NULL DEFAULT gen_random_uuid(),  -- not from a sequence, whose numbers may repeat after a crash
    xact     xid8        NOT NULL DEFAULT pg_current_xact_id(),
    at       timestamptz NOT NULL DEFAULT farrier.now(),
    PRIMARY KEY (kind, resource, id)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0,
        -- VACUUM keeps empty pages, because a plan made for a table without pages reads all rows, and stays in use when
        -- the table has rows again.
        vacuum_truncate = false);
-- For the poll, which reads the wakes of transactions since the last poll. It is not an index on (kind, xact): a plan
-- made while the table was empty would use such an index by kind alone to find the wakes of a few resources.
CREATE INDEX wakes_xact ON farrier.wakes (xact);

-- The steps of each controller: written before they begin, and removed shortly after their ends are recorded. The row outlives its
-- controller: the new owners of its shards recover from the steps and remove them. View effects has a row for each step.
CREATE TABLE farrier.marks (
    controller uuid   NOT NULL,
    kind       text   NOT NULL,
    number     bigint NOT NULL, -- number of the statement that wrote it; a statement with a lower number is too late and changes
                                -- nothing
    steps      jsonb  NOT NULL, -- resource: {step, begun_at}
    PRIMARY KEY (controller, kind)
) WITH (fillfactor = 50);

-- The outcome of the last run of each resource; written only when it changes.
CREATE TABLE farrier.outcomes (
    kind     text        NOT NULL,
    id       bigint      NOT NULL,
    at       timestamptz NOT NULL,  -- when this outcome was first recorded
    key      integer,               -- checksum of the outcome, so that an equal outcome is not written again
    outcome  jsonb       NOT NULL,  -- {outcome, reason, source, error}: its type, the reason, the source line that made it, and the
                                    -- label of the error in which the run ended, or whose end the run waits for
    error    text        GENERATED ALWAYS AS (outcome ->> 'error') STORED,  -- a separate column, for the index
    error_at timestamptz,           -- since when every run has ended in this error; kept while the rest of the outcome changes
    PRIMARY KEY (kind, id)
);
CREATE INDEX outcomes_failing ON farrier.outcomes (kind, error) WHERE error IS NOT NULL;

-- Locks for objects without a row of their own: one row for each key that was ever locked. Only functions of the owner
-- lock these rows; an advisory lock may be held by any login. The table is not logged, because the locks need not
-- outlive a crash.
CREATE UNLOGGED TABLE farrier.locks (
    purpose text   NOT NULL,  -- what is locked: bmc_login, segment_prefixes or segment_number
    key     bigint NOT NULL,  -- hash of the locked key
    PRIMARY KEY (purpose, key)
);

-- =====================================================================================================================
-- Tables: history
-- =====================================================================================================================

-- Every change of a layer of a resource, and the pass that removes old changes.

-- One row for each change of a layer, and for its beginning. Kept for ever, unless a controller is configured to remove old rows.
CREATE TABLE farrier.history (
    kind              text             NOT NULL,
    id                bigint           NOT NULL,
    version           bigint           NOT NULL,  -- version of the resource after the change
    layer             text             NOT NULL,  -- of a node: status, management, onboarding, onboarding_stage, decommission,
                                                  -- decommission_stage, or details.NAME for a value that intent `set` changed; of
                                                  -- any other kind: one of farrier.kind_layers
    from_value        text,                       -- null for the beginning of a layer
    to_value          text             NOT NULL,
    at                timestamptz      NOT NULL,
    seconds_in_source double precision,           -- how long the layer had been in from_value; null for a beginning and for details
    cause             text             NOT NULL,  -- why the run made the change: `intent ID`, `stage: NAME`, ...
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

-- =====================================================================================================================
-- Tables: nodes
-- =====================================================================================================================

-- Nodes, and their identities that must be unique: MAC addresses, BMCs, machines.

-- One row for each node, deleted ones included: a deleted node keeps its row and its history. register_node creates a
-- node, and the commits of its runs write the row.
CREATE TABLE farrier.nodes (
    id                    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name                  text COLLATE "C" NOT NULL,           -- unique among nodes that are not deleted
    site                  text,                                -- name of the site's file without .toml; null: no site
    model                 text,                                -- model of the machine; limits may depend on it
    rack                  text,                                -- rack of the machine
    labels                jsonb       NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(labels) = 'object'),
                                                               -- {name: value}, as registered or set; used in templates of the site
    agentless             boolean     NOT NULL DEFAULT false,  -- no agent enrolls: health is read from the BMC and MAAS
    auto_manage           boolean     NOT NULL DEFAULT true,   -- the BMC is verified as soon as its details are complete, without an
                                                               -- intent `manage`
    maas_id               text,                                -- system id of its machine in MAAS; null: none
    maas_created          boolean     NOT NULL DEFAULT false,  -- farrier created that machine in MAAS
    created_at            timestamptz NOT NULL DEFAULT farrier.now(),
    version               bigint      NOT NULL DEFAULT 1,      -- incremented by each commit that writes the row; a run that was
                                                               -- decided on another version is a conflict
    status                text        NOT NULL,                -- coarse lifecycle (farrier.model.status); edges are in
                                                               -- farrier.edges
    status_entered_at     timestamptz NOT NULL DEFAULT farrier.now(),  -- when the node entered this status
    management            text        NOT NULL,                -- whether the BMC may be used (farrier.model.management); edges
                                                               -- are in farrier.edges
    management_entered_at timestamptz NOT NULL DEFAULT farrier.now(),  -- when the node entered this management state
    bmc_address           text,                                -- https URL or host[:port] of the BMC
    bmc_endpoint          text COLLATE "C",                    -- host and port of bmc_address; set by a trigger
    bmc_credential        text,                                -- a reference such as file:/run/creds/bmc-1, never a secret
    bmc                   jsonb       NOT NULL DEFAULT '{}',   -- results of access to the BMC (farrier.model.node.Bmc)
    -- These columns are generated, because every reading of power would update an index on an expression over bmc. An
    -- index on these columns changes only when their values change.
    power                 text        GENERATED ALWAYS AS (CASE WHEN bmc ? 'power_at' THEN bmc ->> 'power' END) STORED,
                                                               -- power of the last reading, on or off; null: unknown
    sync_failure          text        GENERATED ALWAYS AS (bmc ->> 'sync_failure') STORED,
                                                               -- failure class of the last regular reading
                                                               -- (farrier.model.bmc.BmcFailure); null: no failure
    quarantine            jsonb,                               -- {cause, reason}: why the node is quarantined. Kept while the node
                                                               -- leaves service; cause cleanup_validation_failed is kept until a
                                                               -- validation succeeds or an operator releases the node with a reason
    paused                jsonb,                               -- {reason, at}: an operator has paused the node: it is observed and
                                                               -- not changed; null: not paused
    ever_onboarded        boolean     NOT NULL DEFAULT false,  -- an onboarding of this node has ended as completed or reconciled
    ever_active           boolean     NOT NULL DEFAULT false,  -- the node has been in service: `delete` is refused;
                                                               -- `decommission` or `remove` ends the node
    not_scrubbed          boolean     NOT NULL DEFAULT false,  -- an agent task was force-completed, or a cleaning was cancelled; only
                                                               -- a finished scrub clears it, and until then `reactivate` and
                                                               -- `release` are refused
    deleting              boolean     NOT NULL DEFAULT false,  -- an intent `delete` was accepted, and the node is not deleted yet
    redeploying           boolean     NOT NULL DEFAULT false,  -- a reimage has ended, and the onboarding after it has not begun
    live_workflow_kind    text CHECK (live_workflow_kind IN ('onboarding', 'decommission')),
                                                               -- the table of its live workflow; null: no workflow is live
    live_workflow_id      bigint,                              -- the live workflow; checked at COMMIT (check_pair)
    -- Length and pattern are separate conditions, which every update of the row checks: a counted repetition would cost thirty times
    -- as much. A name that matches is ASCII, so its length in bytes is its length in characters.
    CONSTRAINT node_name_form CHECK (
        octet_length(name) <= 253 AND name ~ '^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$' AND name !~ '^[0-9]+$'),
    CONSTRAINT live_workflow_whole CHECK ((live_workflow_kind IS NULL) = (live_workflow_id IS NULL))
) WITH (fillfactor = 80);
-- A new node may use the name and the machine of a deleted node.
CREATE UNIQUE INDEX nodes_name ON farrier.nodes (name) WHERE status <> 'deleted';
CREATE UNIQUE INDEX nodes_maas ON farrier.nodes (site, maas_id) NULLS NOT DISTINCT
    WHERE status <> 'deleted' AND maas_id IS NOT NULL;
-- For a controller that takes a shard; see shard_of.
CREATE INDEX nodes_shard ON farrier.nodes (((id % 64)::smallint)) WHERE status <> 'deleted';
CREATE INDEX nodes_status ON farrier.nodes (status, status_entered_at);
-- For the brake: the commit that takes nodes out of service counts the nodes in service of their site.
CREATE INDEX nodes_in_service ON farrier.nodes ((coalesce(site, ''))) WHERE status = 'active';
CREATE INDEX nodes_management ON farrier.nodes (management, management_entered_at) WHERE status <> 'deleted';
-- For gauges of the few nodes that need attention; a healthy node is in none of these indexes.
CREATE INDEX nodes_not_on ON farrier.nodes (power)
    WHERE power IS DISTINCT FROM 'on' AND management = 'manageable' AND status <> 'deleted';
CREATE INDEX nodes_unread ON farrier.nodes (sync_failure)
    WHERE sync_failure IS NOT NULL AND management = 'manageable' AND status <> 'deleted';
CREATE INDEX nodes_paused ON farrier.nodes (id) WHERE paused IS NOT NULL AND status <> 'deleted';

-- MAC addresses of the machines of nodes, as registered or set.
CREATE TABLE farrier.node_macs (
    mac     macaddr PRIMARY KEY,  -- address of a network card of the machine
    node_id bigint NOT NULL REFERENCES farrier.nodes
);
CREATE INDEX node_macs_node ON farrier.node_macs (node_id);

-- The extent of a BMC address, independent of its spelling (bmc_span_of). An address with a path claims that one
-- system; an address without a path claims the whole BMC with every system behind it. It is a range of text, so that an
-- exclusion constraint can refuse a claim of a whole BMC beside a claim of one of its systems.
CREATE TYPE farrier.bmc_span AS RANGE (subtype = text, collation = "C");

-- The BMC, or system behind a BMC, that each node claims by its address. Only claim_bmc writes here. It is a separate table, because
-- every change of a node's row would check the exclusion constraint.
CREATE TABLE farrier.node_bmcs (
    node_id bigint PRIMARY KEY REFERENCES farrier.nodes,
    span    farrier.bmc_span NOT NULL,  -- extent of the node's bmc_address
    CONSTRAINT node_bmcs_one EXCLUDE USING gist (span WITH &&)
);

-- Logins at each BMC that may have failed: the tries of nodes.bmc, kept for the BMC at which they were made. They are kept for
-- login_window even if the node's address changes or the node is deleted, because a BMC locks the account for that long. Only
-- note_logins writes here.
CREATE TABLE farrier.bmc_logins (
    endpoint text COLLATE "C" NOT NULL,                      -- host and port of the BMC
    node_id  bigint      NOT NULL REFERENCES farrier.nodes,  -- the node that logged in
    at       timestamptz NOT NULL,                           -- when the login was made
    open     boolean     NOT NULL,                           -- the login may still be running
    PRIMARY KEY (endpoint, node_id, at)
);
CREATE INDEX bmc_logins_at ON farrier.bmc_logins (at);

-- The identities of each node's machine, from nodes.bmc. Of several nodes with one machine, one holds it. The other nodes recorded it
-- while its number counted as a placeholder (one of identity_placeholders); such duplicates are reported and kept. Only
-- claim_identity and derive_identities write here.
CREATE TABLE farrier.node_identities (
    node_id bigint  NOT NULL REFERENCES farrier.nodes,
    kind    text    NOT NULL CHECK (kind IN ('uuid', 'serial', 'mac')),
    value   text    COLLATE "C" NOT NULL,  -- in the canonical form of identity_keys
    holds   boolean NOT NULL,              -- the machine belongs to this node; false for a duplicate
    PRIMARY KEY (node_id, kind, value)
);
CREATE UNIQUE INDEX node_identities_one ON farrier.node_identities (kind, value) WHERE holds;
CREATE INDEX node_identities_shared ON farrier.node_identities (kind, value) WHERE NOT holds;

-- =====================================================================================================================
-- Tables: workflows
-- =====================================================================================================================

-- The workflows of nodes.

-- Workflows that take a node into service. A node has at most one live workflow, of either kind.
CREATE TABLE farrier.node_onboardings (
    id                bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    node_id           bigint      NOT NULL REFERENCES farrier.nodes,
    mode              text,                                        -- deploy, adopt or manual; null until an intent gives the mode
    status            text        NOT NULL DEFAULT 'pending',      -- farrier.model.workflow.WorkflowStatus; edges are in
                                                                   -- farrier.edges
    status_entered_at timestamptz NOT NULL DEFAULT farrier.now(),  -- when the workflow entered this status
    stage             text,                                        -- null before the first stage
    stage_entered_at  timestamptz NOT NULL DEFAULT farrier.now(),  -- when the workflow entered this stage
    attempt           integer     NOT NULL DEFAULT 1,              -- counts attempts of the stage, from 1
    next_attempt_at   timestamptz,                                 -- when a failed stage is retried
    failure_class     text,                                        -- why the last attempt failed
                                                                   -- (farrier.model.failures.FailureClass)
    failure_detail    text,                                        -- text of the same failure for operators
    stop_requested    text,                                        -- why the workflow must stop: drain_failed, frozen
                                                                   -- (by an operator) or failed. Stopping takes several
                                                                   -- edges
    after_undo        text,                                        -- what follows `compensating`: cancel or restart;
                                                                   -- null: neither
    mode_given_at     timestamptz,                                 -- when the end-to-end clock began
    options           jsonb       NOT NULL DEFAULT '{}',           -- options of the intent that began it (farrier.model.node.Options)
    skipped           jsonb       NOT NULL DEFAULT '[]',           -- [{stage, why}]: stages that were not run
    upstream          jsonb       NOT NULL DEFAULT '{}',           -- results of its stages in MAAS that later stages
                                                                   -- need (farrier.model.node.Upstream)
    -- Random, because ids begin at 1 in each database, and several databases may use one region: only a value that cannot be guessed
    -- proves that a request belongs to this workflow.
    mark              text        NOT NULL DEFAULT left(replace(gen_random_uuid()::text, '-', ''), 16),
                                                                   -- identifies its requests in MAAS
    created_at        timestamptz NOT NULL DEFAULT farrier.now(),
    ended_at          timestamptz                                  -- null while the workflow is live; set by a trigger, with the
                                                                   -- status
);
CREATE UNIQUE INDEX node_onboardings_live ON farrier.node_onboardings (node_id)
    WHERE ended_at IS NULL;
CREATE INDEX node_onboardings_node ON farrier.node_onboardings (node_id, id);

-- Workflows that take a node out of service, temporarily or for good. A node has at most one live workflow, of either kind.
CREATE TABLE farrier.node_decommissions (
    id                bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    node_id           bigint      NOT NULL REFERENCES farrier.nodes,
    mode              text        NOT NULL,                        -- soft_reset, reimage, full_decommission or storage_cleanup
    status            text        NOT NULL DEFAULT 'pending',      -- farrier.model.workflow.WorkflowStatus; edges are in
                                                                   -- farrier.edges
    status_entered_at timestamptz NOT NULL DEFAULT farrier.now(),  -- when the workflow entered this status
    stage             text,                                        -- null before the first stage
    stage_entered_at  timestamptz NOT NULL DEFAULT farrier.now(),  -- when the workflow entered this stage
    attempt           integer     NOT NULL DEFAULT 1,              -- counts attempts of the stage, from 1
    next_attempt_at   timestamptz,                                 -- when a failed stage is retried
    failure_class     text,                                        -- why the last attempt failed
                                                                   -- (farrier.model.failures.FailureClass)
    failure_detail    text,                                        -- text of the same failure for operators
    stop_requested    text,                                        -- why the workflow must stop: drain_failed, frozen
                                                                   -- (by an operator) or failed. Stopping takes several
                                                                   -- edges
    after_undo        text,                                        -- what follows `compensating`: cancel or restart;
                                                                   -- null: neither
    mode_given_at     timestamptz,                                 -- when the end-to-end clock began
    options           jsonb       NOT NULL DEFAULT '{}',           -- options of the intent that began it (farrier.model.node.Options)
    skipped           jsonb       NOT NULL DEFAULT '[]',           -- [{stage, why}]: stages that were not run
    upstream          jsonb       NOT NULL DEFAULT '{}',           -- results of its stages in MAAS that later stages
                                                                   -- need (farrier.model.node.Upstream)
    mark              text        NOT NULL DEFAULT left(replace(gen_random_uuid()::text, '-', ''), 16),
                                                                   -- random; identifies its requests in MAAS
    created_at        timestamptz NOT NULL DEFAULT farrier.now(),
    ended_at          timestamptz                                  -- null while the workflow is live; set by a trigger, with the
                                                                   -- status
);
CREATE UNIQUE INDEX node_decommissions_live ON farrier.node_decommissions (node_id)
    WHERE ended_at IS NULL;
CREATE INDEX node_decommissions_node ON farrier.node_decommissions (node_id, id);

-- =====================================================================================================================
-- Tables: agents
-- =====================================================================================================================

-- The agents on nodes, and the tokens with which they enroll.

-- Tokens with which agents enroll. Each token is valid for one enrollment, and is stored as a digest.
CREATE TABLE farrier.bootstrap_tokens (
    hash       bytea       PRIMARY KEY,  -- digest of the token
    node_id    bigint      NOT NULL REFERENCES farrier.nodes,
    issued_at  timestamptz NOT NULL DEFAULT farrier.now(),
    expires_at timestamptz NOT NULL,     -- the token is invalid from then on
    used_at    timestamptz,              -- when an agent enrolled with the token
    revoked_at timestamptz               -- when the token was replaced or revoked before its use
);
CREATE INDEX bootstrap_tokens_node ON farrier.bootstrap_tokens (node_id);

-- The agent of each node: one row, updated by every heartbeat.
CREATE TABLE farrier.node_agents (
    node_id           bigint      PRIMARY KEY REFERENCES farrier.nodes,
    key_hash          bytea       NOT NULL,               -- digest of the key with which the agent authenticates
    facts             jsonb       NOT NULL DEFAULT '{}',  -- facts that the agent reported when it enrolled
    enrolled_at       timestamptz NOT NULL DEFAULT farrier.now(),
    last_heartbeat_at timestamptz,                        -- null before the first heartbeat
    health            jsonb       NOT NULL DEFAULT '{}',  -- the agent's last report: {ok, alerts, ssh_seed} (farrier.model.health)
    condition         text        GENERATED ALWAYS AS (
        CASE WHEN health @> '{"alerts": [{"blocks_scheduling": true}]}' THEN 'blocked'
             WHEN health @> '{"ok": false}' OR health -> 'alerts' <> '[]' THEN 'alerting'
             ELSE 'ok' END) STORED,                       -- derived from health, for gauges; `blocked`: an alert blocks scheduling
    ssh_seed_failures integer     NOT NULL DEFAULT 0      -- consecutive heartbeats that reported a failed SSH seed
) WITH (fillfactor = 50);
CREATE INDEX node_agents_unwell ON farrier.node_agents (condition) WHERE condition <> 'ok';

-- =====================================================================================================================
-- Tables: tasks
-- =====================================================================================================================

-- Tasks of decommissions, and the logins that may work on them.

-- The types of tasks. Every migration writes them.
CREATE TABLE farrier.task_types (
    type text PRIMARY KEY
);

-- Tasks of decommissions for agents and workers. A node has at most one live task of a type.
CREATE TABLE farrier.node_tasks (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    node_id       bigint      NOT NULL REFERENCES farrier.nodes,
    workflow_id   bigint      NOT NULL REFERENCES farrier.node_decommissions,  -- the decommission to which the task belongs
    type          text        NOT NULL,                        -- one of task_types
    status        text        NOT NULL DEFAULT 'queued'
                  CHECK (status IN ('queued', 'dispatched', 'succeeded', 'failed', 'expired', 'cancelled')),
                                                               -- dispatched: claimed by an agent or a worker
    params        jsonb       NOT NULL DEFAULT '{}',           -- for the agent or worker that claims it
    attempt       integer     NOT NULL DEFAULT 1,              -- which issue of the task within its workflow, from 1; each issue is a
                                                               -- separate row
    failures      integer     NOT NULL DEFAULT 0,              -- how many earlier issues failed
    claimed_by    text,                                        -- 'agent of NODE' or 'worker LOGIN'; null before the claim
    lease_token   uuid,                                        -- random; the claimant authenticates with it
    lease_until   timestamptz,                                 -- the claimant renews the lease before this time; otherwise the task
                                                               -- ends expired and is issued again
    result        jsonb,                                       -- JSON from the claimant; for a task that no claimant ended, the
                                                               -- reason as a text
    created_at    timestamptz NOT NULL DEFAULT farrier.now(),  -- when it was queued
    dispatched_at timestamptz,                                 -- when it was claimed
    ended_at      timestamptz,                                 -- when it ended, in whichever status
    CONSTRAINT ended_with_status CHECK ((ended_at IS NULL) = (status IN ('queued', 'dispatched')))
);
CREATE UNIQUE INDEX node_tasks_live ON farrier.node_tasks (node_id, type) WHERE ended_at IS NULL;
CREATE INDEX node_tasks_queued ON farrier.node_tasks (type, id) WHERE status = 'queued';
CREATE INDEX node_tasks_workflow ON farrier.node_tasks (workflow_id, type, id);
CREATE INDEX node_tasks_node ON farrier.node_tasks (node_id, id);

-- Logins that may claim tasks of several nodes. grant_worker and revoke_worker write this table.
CREATE TABLE farrier.workers (
    login      text        PRIMARY KEY,                   -- the session_user of the worker
    types      text[]      NOT NULL,                      -- task types that it may claim
    site       text,                                      -- site of the nodes whose tasks the login may claim; null: all sites
    granted_at timestamptz NOT NULL DEFAULT farrier.now(),
    granted_by text        NOT NULL DEFAULT session_user  -- the session_user that called grant_worker
);

-- =====================================================================================================================
-- Tables: intents
-- =====================================================================================================================

-- Intents for nodes.

-- Intents of clients for nodes, with the answer of the node's handler. A client inserts a row, or calls farrier.intent().
CREATE TABLE farrier.intents (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    node            text        NOT NULL,                           -- name or id, as the client gave it
    node_id         bigint      NOT NULL REFERENCES farrier.nodes,  -- the node with that name or id; set by a trigger
    action          text        NOT NULL,                           -- farrier.model.actions.Action
    params          jsonb       NOT NULL DEFAULT '{}',              -- must obey the rules in farrier.kind_actions
    api_version     integer,                                        -- version of the API that the client uses; null: the lowest
                                                                    -- supported one
    idempotency_key text,                                           -- unique for a node: a repeated request is the same intent
    requested_by    text        DEFAULT session_user,               -- name of the client, as submitted, or else its login; recorded,
                                                                    -- not verified
    status          text        NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'accepted', 'rejected', 'superseded')),
                                                                    -- set by the node's handler; accepted: begun or done in that
                                                                    -- commit; superseded: replaced by a newer intent
    reason          text,                                           -- text of the response
    created_at      timestamptz NOT NULL DEFAULT farrier.now(),
    answered_at     timestamptz,                                    -- when the status changed from pending
    CONSTRAINT intent_size CHECK (octet_length(params::text) <= 16384)
);
CREATE UNIQUE INDEX intents_key ON farrier.intents (node_id, idempotency_key) WHERE idempotency_key IS NOT NULL;
-- intent_by_key uses this index to find a repeated call whose node was deleted.
CREATE INDEX intents_asked ON farrier.intents (node, idempotency_key, action, id) WHERE idempotency_key IS NOT NULL;
CREATE INDEX intents_pending ON farrier.intents (node_id, id) WHERE status = 'pending';
CREATE INDEX intents_node ON farrier.intents (node_id, id);

-- =====================================================================================================================
-- Tables: kinds
-- =====================================================================================================================

-- Kinds of resources. Nodes have tables of their own. Any other kind has a table like farrier.resources, which make_kind installs.

-- The kinds. Every migration records kind node; make_kind records the other kinds.
CREATE TABLE farrier.kinds (
    kind          text     PRIMARY KEY CHECK (kind ~ '^[a-z][a-z0-9_]{0,39}$'),
    relation      regclass NOT NULL UNIQUE,  -- its table, with columns id and version; after the table was dropped, an oid without a
                                             -- table
    fingerprint   text,                      -- hash of the spec from which its states, edges and actions were written;
                                             -- null until they are written
    living        text     NOT NULL DEFAULT 'ended_at IS NULL',  -- SQL condition that a row of the table has not ended
    named         name     NOT NULL DEFAULT 'name',              -- column of the table with the name of the resource
    from_template boolean  NOT NULL DEFAULT false                -- its table is like farrier.resources: its resources are listed and
                                                                 -- counted, and accept the intents in resource_intents
);

-- The layers of each kind, from its spec. The layers of a resource change independently, each with its own clock.
CREATE TABLE farrier.kind_layers (
    kind  text NOT NULL,
    layer text NOT NULL,  -- for a kind with a table like farrier.resources: `state` and further layers, each named like
                          -- its column
    label text NOT NULL,  -- name of the layer in metrics; except for nodes, the names of its limits begin with it
    relation regclass,    -- the table of the layer, in which column KIND_id names the resource; null: the table of the kind
    PRIMARY KEY (kind, layer)
);

-- The states of each layer, from the spec of its kind.
CREATE TABLE farrier.kind_states (
    kind     text     NOT NULL,
    layer    text     NOT NULL,
    state    text     NOT NULL,  -- STATE or STATE/SUBSTATE
    initial  boolean  NOT NULL,  -- the layer may begin in this state
    terminal boolean  NOT NULL,  -- the layer ends in this state
    sla      interval,           -- default limit; null: no limit
    why_none text     NOT NULL,  -- why there is no limit; empty: there is one
    PRIMARY KEY (kind, layer, state)
);

-- The actions that an intent may request of resources of each kind, from its spec. Table actions has more about those of nodes.
CREATE TABLE farrier.kind_actions (
    kind        text    NOT NULL,
    action      text    NOT NULL,
    description text    NOT NULL,  -- text for listings
    params      jsonb   NOT NULL,  -- rules of the parameters; see params_fault
    states      text[]  NOT NULL,  -- the states of the first layer that accept it, in order; empty for `create`. In any other state
                                   -- the next run rejects the intent
    instead     text    NOT NULL,  -- what to do in the other states; empty: no advice
    interrupts  boolean NOT NULL,  -- a pending intent with this action interrupts a step that only reads
    PRIMARY KEY (kind, action)
);

-- Template for the tables of kinds, which begin with these columns. It has no rows. A resource that has ended keeps its row.
CREATE TABLE farrier.resources (
    id               bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name             text COLLATE "C" NOT NULL CHECK (
        octet_length(name) <= 253 AND name ~ '^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$' AND name !~ '^[0-9]+$'),
                                                                  -- unique among resources of the kind that have not ended
    site             text,                                        -- null: no site
    version          bigint      NOT NULL DEFAULT 1,              -- incremented by each commit that writes the row; a run that was
                                                                  -- decided on another version is a conflict
    state            text        NOT NULL,                        -- a trigger sets it to the first state of the kind when the row is
                                                                  -- inserted
    state_entered_at timestamptz NOT NULL DEFAULT farrier.now(),  -- when the resource entered this state
    created_at       timestamptz NOT NULL DEFAULT farrier.now(),
    ended_at         timestamptz,                                 -- when the resource entered a terminal state; null before
    last_error       text                                         -- text of the last failure; null: no failure
) WITH (fillfactor = 80);
-- For gauges, whose counts read only this index; copied to the table of each kind.
CREATE INDEX resources_by_state ON farrier.resources (state, state_entered_at) WHERE ended_at IS NULL;
-- For a controller that takes a shard; see shard_of.
CREATE INDEX resources_shard ON farrier.resources (((id % 64)::smallint)) WHERE ended_at IS NULL;

-- Functions that a role may call in addition to those in the files of rights; let_call records them.
CREATE TABLE farrier.callable (
    role_name text NOT NULL,
    function  text NOT NULL,  -- with the types of its arguments, such as 'farrier.take_address(text,bigint)'
    PRIMARY KEY (role_name, function)
);

-- =====================================================================================================================
-- Tables: brakes
-- =====================================================================================================================

-- Brakes: if many nodes of one site would leave service together, the likely cause is the network or the region, not the nodes.

-- Nodes that silence or drift took out of service within the brake's window, or would have taken without the brake. A held node
-- retries every brake_retry, so its row stays recent while the cause lasts. farrier.departing has the rows that count.
CREATE TABLE farrier.departures (
    site text        NOT NULL,  -- '' for nodes without a site
    node bigint      NOT NULL,  -- nodes.id
    at   timestamptz NOT NULL,  -- when the node last left service, or last tried to
    held boolean     NOT NULL,  -- the brake refused the change: the node is still in service
    PRIMARY KEY (site, node)
);

-- One row for each site with nodes that were about to leave service: the lock under which they are counted, and the last count.
CREATE TABLE farrier.brakes (
    site       text PRIMARY KEY,                -- '' for nodes without a site
    in_service integer     NOT NULL DEFAULT 0,  -- at the last count, active nodes of the site and nodes in departures
    departed   integer     NOT NULL DEFAULT 0,  -- rows of the site in departures: a running total, so that a commit reads only the
                                                -- rows of its own nodes
    counted_at timestamptz,                     -- when in_service and departed were counted
    since      timestamptz                      -- when the brake began to hold nodes, this time or the last time
);

-- Lifts of brakes by operators; the newest row of a site is in force.
CREATE TABLE farrier.brake_lifts (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    site         text        NOT NULL,  -- '' for nodes without a site
    until        timestamptz NOT NULL,  -- until when any number of nodes may leave
    reason       text        NOT NULL,  -- text of the operator
    requested_by text        NOT NULL,  -- name that the operator gave, else session_user
    at           timestamptz NOT NULL DEFAULT farrier.now()
);
CREATE INDEX brake_lifts_newest ON farrier.brake_lifts (site, id);

-- =====================================================================================================================
-- Tables: maas
-- =====================================================================================================================

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
    username      text,                                        -- user to whom the controllers' key belongs; null until the region has
                                                               -- reported it
    identified_at timestamptz,                                 -- when a controller last read username from the region
    cursor        jsonb       NOT NULL DEFAULT '{}',           -- {newest, gaps}: how far the region's events were read
                                                               -- (farrier.model.maas_region.Cursor)
    complete_at   timestamptz,                                 -- every event before this time was read
    swept_at      timestamptz,                                 -- the sweep has read the machines that were due before this time
    failure       text,                                        -- class of the last failure (farrier.model.maas.MaasFailure);
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
    node_id     bigint      NOT NULL REFERENCES farrier.nodes,
    source      text        NOT NULL CHECK (source = 'maas'),  -- the service that provided the reading
    site        text        NOT NULL,                          -- site of the region
    system_id   text        NOT NULL,                          -- ID of the machine in MAAS
    state       text,                                          -- farrier.model.maas.MaasStatus; null until the first reading
    since       timestamptz,                                   -- when the first of the consecutive readings with this state began
    read_at     timestamptz,                                   -- when the last reading began
    stale_since timestamptz,                                   -- the time of the last event about the machine, or of lost events,
                                                               -- that the last reading does not include; null: none
    lost_at     timestamptz,                                   -- when a reading first reported the machine as absent
                                                               -- after an earlier reading had found it, while no
                                                               -- decommission of its node was live
    detail      jsonb       NOT NULL DEFAULT '{}',             -- fields of the last reading
                                                               -- (farrier.model.maas_region.Seen)
    owner_by_rescue boolean   NOT NULL DEFAULT false,          -- rescue mode gave the machine to its owner; kept until
                                                               -- the owner changes
    PRIMARY KEY (node_id, source),
    CONSTRAINT read_whole CHECK ((read_at IS NULL) = (state IS NULL) AND (read_at IS NULL) = (since IS NULL))
) WITH (fillfactor = 70);
CREATE INDEX node_observations_machine ON farrier.node_observations (site, system_id);
CREATE INDEX node_observations_turn ON farrier.node_observations (site, read_at);
CREATE INDEX node_observations_stale ON farrier.node_observations (site, stale_since) WHERE stale_since IS NOT NULL;
CREATE INDEX node_observations_state ON farrier.node_observations (site, state, read_at);

-- =====================================================================================================================
-- Tables: requests
-- =====================================================================================================================

-- Intents for resources of kinds with tables like farrier.resources.

-- Intents of clients for resources of kinds with tables like farrier.resources, with the answer. A client inserts a row, or calls
-- farrier.resource_intent(). The INSERT refuses malformed requests, and with `create` it creates the resource.
CREATE TABLE farrier.resource_intents (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind            text        NOT NULL,
    resource        text        NOT NULL,               -- name or id, as the client gave it
    resource_id     bigint      NOT NULL,               -- the resource with that name or id, or the created one; set by a trigger
    action          text        NOT NULL,               -- `create`, or another action of farrier.kind_actions
    params          jsonb       NOT NULL DEFAULT '{}',  -- must obey the rules in farrier.kind_actions
    idempotency_key text,                               -- unique for a resource: a repeated request is the same intent
    requested_by    text        DEFAULT session_user,   -- name of the client, as submitted, or else its login; recorded, not verified
    status          text        NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'accepted', 'rejected', 'superseded')),
                                                        -- `create` is accepted at once; the handler of the kind responds to any other
                                                        -- action
    reason          text,                               -- text of the response
    created_at      timestamptz NOT NULL DEFAULT farrier.now(),
    answered_at     timestamptz,                        -- when the status changed from pending
    CONSTRAINT resource_intent_size CHECK (octet_length(params::text) <= 16384)
);
CREATE UNIQUE INDEX resource_intents_key ON farrier.resource_intents (kind, resource_id, idempotency_key)
    WHERE idempotency_key IS NOT NULL;
-- For creations: a resource has no id before its creation, so the name takes the place of the id.
CREATE UNIQUE INDEX resource_intents_create_key ON farrier.resource_intents (kind, resource, idempotency_key)
    WHERE idempotency_key IS NOT NULL AND action = 'create';
-- intent_by_key uses this index to find a repeated call whose resource has ended.
CREATE INDEX resource_intents_asked ON farrier.resource_intents (kind, resource, idempotency_key, action, id)
    WHERE idempotency_key IS NOT NULL;
CREATE INDEX resource_intents_pending ON farrier.resource_intents (kind, resource_id, id) WHERE status = 'pending';
CREATE INDEX resource_intents_resource ON farrier.resource_intents (kind, resource_id, id);

-- =====================================================================================================================
-- Tables: numbers
-- =====================================================================================================================

-- Pools of numbers that resources take: VLANs, VNIs and keys of partitions.

-- Pools of numbers that resources take. The lowest free number is found at once, even if many are taken: it is the lowest in
-- freed_numbers, or the first number at or above `next` that is not taken.
CREATE TABLE farrier.number_pools (
    pool  text    PRIMARY KEY,  -- farrier uses `vlan:SITE`, `vni`, `pkey:SITE` and `pkey`
    first integer NOT NULL,     -- lowest number
    last  integer NOT NULL,     -- highest number
    next  bigint  NOT NULL,     -- all lower numbers of the pool are taken or freed
    CHECK (first <= last AND first <= next)
);

-- Taken numbers, each with the resource that has it.
CREATE TABLE farrier.pool_numbers (
    pool   text    NOT NULL REFERENCES farrier.number_pools,
    number integer NOT NULL,
    kind   text    NOT NULL,  -- kind of the resource that has the number
    id     bigint  NOT NULL,  -- id of that resource
    PRIMARY KEY (pool, number)
);
CREATE INDEX pool_numbers_holder ON farrier.pool_numbers (kind, id);

-- Released numbers. There is no foreign key to the pool, because a release must not wait for a transaction that takes a
-- number.
CREATE TABLE farrier.freed_numbers (
    pool   text    NOT NULL,
    number integer NOT NULL,
    PRIMARY KEY (pool, number)
);

-- =====================================================================================================================
-- Tables: segments
-- =====================================================================================================================

-- Network segments, their prefixes and addresses.

-- Network segments: the table of kind network_segment.
CREATE TABLE farrier.network_segments (
    LIKE farrier.resources INCLUDING ALL,
    prefixes        text[]      NOT NULL,                         -- as PostgreSQL writes them; segment_prefixes has a row for each
                                                                  -- until the segment ends
    gateways        text[]      NOT NULL DEFAULT '{}',            -- addresses, each within one of the prefixes
    reserved_first  integer     NOT NULL DEFAULT 0 CHECK (reserved_first BETWEEN 0 AND 65536),
                                                                  -- how many addresses at the beginning of each prefix are never
                                                                  -- allocated
    reserved_last   integer     NOT NULL DEFAULT 0 CHECK (reserved_last BETWEEN 0 AND 65536),
                                                                  -- how many addresses at the end of each prefix are never allocated
    vlan            integer     CHECK (vlan BETWEEN 1 AND 4094),  -- unique at its site
    vni             integer     CHECK (vni BETWEEN 1 AND 16777215),  -- unique
    mtu             integer     NOT NULL DEFAULT 1500 CHECK (mtu BETWEEN 576 AND 9216),  -- bytes
    drain_until     timestamptz,                                  -- when the drain may end, unless an address is allocated at that time
    delete_asked_at timestamptz,                                  -- when the deletion was accepted
    delete_request  bigint,                                       -- the row of resource_intents that requested the deletion
    CONSTRAINT segment_has_site CHECK (site IS NOT NULL)
);
-- Covers tags that come from no pool, too, because two networks with one VLAN tag are one network.
CREATE UNIQUE INDEX network_segments_vlan ON farrier.network_segments (site, vlan) WHERE ended_at IS NULL;
CREATE UNIQUE INDEX network_segments_vni ON farrier.network_segments (vni) WHERE ended_at IS NULL;
CREATE INDEX network_segments_ended_name ON farrier.network_segments (name, id) WHERE ended_at IS NOT NULL;

-- How much of each segment is in use. The row is the lock under which addresses of the segment change: a transaction
-- that allocates or releases an address holds the lock until it ends. The loop does not wait for this lock: its only
-- commit that changes the row closes a segment, and locks the row with SKIP LOCKED. A transaction that holds the lock
-- waits for no row that the loop has locked.
CREATE TABLE farrier.segment_usage (
    segment          bigint      PRIMARY KEY REFERENCES farrier.network_segments,
    open             boolean     NOT NULL DEFAULT true,  -- false from the beginning of the segment's deletion; only an open segment
                                                         -- in state ready allocates addresses
    allocated        bigint      NOT NULL DEFAULT 0 CHECK (allocated >= 0),  -- how many addresses are allocated
    last_released_at timestamptz                         -- when an address was last released, set at COMMIT
) WITH (fillfactor = 50);

-- A site as a range that contains only its name; see segment_prefixes.
CREATE TYPE farrier.site_span AS RANGE (subtype = text, collation = "C");

-- Prefixes of segments that have not ended. The exclusion constraint proves that no two prefixes of a site overlap: at any isolation
-- level, it sees uncommitted rows of other transactions and waits for them. A site is stored as a range with one text,
-- because core PostgreSQL has GiST operators for ranges and networks; operators for equality of texts require an
-- extension.
CREATE TABLE farrier.segment_prefixes (
    segment        bigint  NOT NULL REFERENCES farrier.segment_usage,
    prefix         cidr    NOT NULL,
    site           text    NOT NULL,
    gateway        inet    CHECK (gateway << prefix OR gateway = prefix),  -- null: no gateway
    reserved_first integer NOT NULL,                     -- see network_segments
    reserved_last  integer NOT NULL,                     -- see network_segments
    first          inet    NOT NULL,                     -- first address for allocation; the gateway is skipped
    last           inet    NOT NULL,                     -- last address for allocation; the gateway is skipped
    usable         numeric NOT NULL CHECK (usable > 0),  -- how many addresses can be allocated
    PRIMARY KEY (segment, prefix),
    CONSTRAINT segment_prefixes_apart EXCLUDE USING gist (farrier.site_span(site, site, '[]') WITH &&, prefix inet_ops WITH &&)
);

-- Free addresses, as ranges: a /64 is one row. The key is the end of a range. The lowest free address is taken from the start of the
-- first range, which leaves the key unchanged.
CREATE TABLE farrier.segment_free (
    segment bigint NOT NULL,
    prefix  cidr   NOT NULL,
    first   inet   NOT NULL,  -- first address of the range
    last    inet   NOT NULL,  -- last address of the range
    PRIMARY KEY (segment, last),
    CHECK (first <= last),
    FOREIGN KEY (segment, prefix) REFERENCES farrier.segment_prefixes ON DELETE CASCADE
) WITH (fillfactor = 50);

-- Allocated addresses.
CREATE TABLE farrier.segment_addresses (
    segment      bigint      NOT NULL,
    address      inet        NOT NULL,
    prefix       cidr        NOT NULL,
    owner        text        NOT NULL CHECK (owner ~ '\S' AND char_length(owner) <= 253),
                                                        -- the owner, named by the client; it has one address of each family
    node         bigint      REFERENCES farrier.nodes,  -- the node that uses the address; null: no node
    allocated_at timestamptz NOT NULL DEFAULT farrier.now(),
    PRIMARY KEY (segment, address),
    FOREIGN KEY (segment, prefix) REFERENCES farrier.segment_prefixes
);
-- An owner has one address of each family, so that a repeated call returns the same address.
CREATE UNIQUE INDEX segment_addresses_owner ON farrier.segment_addresses (segment, owner, family(address));
CREATE INDEX segment_addresses_node ON farrier.segment_addresses (node) WHERE node IS NOT NULL;

-- =====================================================================================================================
-- Tables: partitions
-- =====================================================================================================================

-- InfiniBand partitions and their members.

-- InfiniBand partitions: the table of kind ib_partition.
CREATE TABLE farrier.ib_partitions (
    LIKE farrier.resources INCLUDING ALL,
    pkey          integer NOT NULL CHECK (pkey BETWEEN 1 AND 32766),  -- the partition key, taken from the pool of its site
    mtu_limit     integer NOT NULL DEFAULT 2 CHECK (mtu_limit IN (2, 4)),  -- KiB
    rate_limit    text    NOT NULL DEFAULT '2.5' CHECK (rate_limit IN (
        '2.5', '5', '10', '14', '20', '25', '30', '40', '56', '60', '80', '100', '112', '120', '168', '200', '300')),  -- Gb/s
    service_level integer NOT NULL DEFAULT 0 CHECK (service_level BETWEEN 0 AND 15),  -- InfiniBand service level of its traffic
    ip_over_ib    boolean NOT NULL DEFAULT true,   -- whether UFM allows IP over InfiniBand in the partition
    index0        boolean NOT NULL DEFAULT false,  -- the key is the first in the partition tables of its ports
    claimed_at    timestamptz,                     -- since when the number belongs to farrier in UFM, because UFM had no such
                                                   -- partition; null before
    claimed_in    text    NOT NULL DEFAULT '',     -- URL of the UFM for which claimed_at holds
    asked_at      timestamptz,                     -- since when UFM has not made a change that it accepted; null: no such
                                                   -- change
    absent_at     timestamptz,                     -- when UFM was first seen without the partition during its deletion
    draining      boolean NOT NULL DEFAULT false,  -- the deletion was accepted although the partition has members, and waits until
                                                   -- they leave
    fabric_name   text    NOT NULL DEFAULT '',     -- its name in UFM
    strangers     jsonb   NOT NULL DEFAULT '[]'    -- [{guid, seen_at}]: ports that are members in UFM and that no client added
);
CREATE INDEX ib_partitions_ended_name ON farrier.ib_partitions (name) WHERE ended_at IS NOT NULL;

-- Ports that are members of partitions.
CREATE TABLE farrier.ib_members (
    partition  bigint      NOT NULL REFERENCES farrier.ib_partitions,
    guid       text        NOT NULL CHECK (guid ~ '^[0-9a-f]{16}$'),  -- GUID of the port, in the form of ib_guid
    owner      text        NOT NULL CHECK (owner ~ '\S' AND char_length(owner) <= 253),
                                                            -- the owner of the membership, named by the client
    node       bigint      REFERENCES farrier.nodes,        -- the node that uses the port; null: no node
    membership text        NOT NULL DEFAULT 'full' CHECK (membership IN ('full', 'limited')),
    state      text        NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'applied', 'refused', 'leaving')),
                                                            -- pending: to be added in UFM; applied: added in UFM; refused: UFM
                                                            -- refused it, and the request is repeated; leaving: to be removed in UFM,
                                                            -- then deleted
    reason     text,                                        -- why UFM refuses the port; null: not refused
    since      timestamptz NOT NULL DEFAULT farrier.now(),  -- when the member entered this state
    seq        bigint      NOT NULL DEFAULT 1,              -- incremented by each request of a client for the member; a run that read
                                                            -- another value does not change the row
    PRIMARY KEY (partition, guid)
) WITH (fillfactor = 80);
CREATE INDEX ib_members_node ON farrier.ib_members (node) WHERE node IS NOT NULL;
CREATE INDEX ib_members_guid ON farrier.ib_members (guid);

-- =====================================================================================================================
-- Tables: networks
-- =====================================================================================================================

-- Returns whether `given` has at most 64 GUIDs of InfiniBand ports, all in the stored form. Used by a CHECK of
-- node_ib_ports.
CREATE OR REPLACE FUNCTION farrier.are_guids(given text[]) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    RETURN cardinality(given) <= 64 AND (SELECT coalesce(bool_and(g IS NOT NULL AND g ~ '^[0-9a-f]{16}$'), true) FROM unnest(given) g);

-- The segments, partitions and InfiniBand ports of each node.

-- Segments and partitions that a node uses, by name: a segment or partition may be created later. use_networks writes the rows.
CREATE TABLE farrier.node_uses (
    node bigint NOT NULL REFERENCES farrier.nodes,
    kind text   NOT NULL CHECK (kind IN ('network_segment', 'ib_partition')),  -- whether it is a segment or a partition
    name text   NOT NULL,  -- name of the segment or partition
    PRIMARY KEY (node, kind, name)
);
CREATE INDEX node_uses_name ON farrier.node_uses (kind, name);

-- InfiniBand ports of nodes; no row for a node whose ports are unknown. It is a separate table, because a client that
-- locked a row of nodes would delay the commits of the node's runs; only the loop writes nodes.
CREATE TABLE farrier.node_ib_ports (
    node  bigint  PRIMARY KEY REFERENCES farrier.nodes,
    guids text[]  NOT NULL CHECK (farrier.are_guids(guids)),  -- sorted; empty: the node has none
    given boolean NOT NULL                                    -- set by set_ib_ports; false: reported by the agent when it enrolled
);
CREATE INDEX node_ib_ports_guids ON farrier.node_ib_ports USING gin (guids);

-- =====================================================================================================================
-- Functions: core
-- =====================================================================================================================

-- Returns the constants of the model that functions read. Raises an error if the row is missing, so that no function reads a null.
CREATE OR REPLACE FUNCTION farrier.read_constants() RETURNS farrier.constants
    LANGUAGE plpgsql STABLE SET search_path = farrier, pg_temp AS $$
DECLARE
    one constants;
BEGIN
    SELECT * INTO STRICT one FROM constants;
    RETURN one;
END $$;

-- Returns the versions of the intent API that this database accepts. Every role of farrier may call it.
CREATE OR REPLACE FUNCTION farrier.api_version(OUT api_min integer, OUT api_max integer)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp
    RETURN ((farrier.read_constants()).api_min, (farrier.read_constants()).api_max);

-- Returns the SHA-256 digest by which bootstrap tokens and agent keys are stored and compared.
CREATE OR REPLACE FUNCTION farrier.digest(secret text) RETURNS bytea LANGUAGE sql IMMUTABLE
    RETURN sha256(convert_to(secret, 'UTF8'));

-- Returns the fault of JSON that a caller will store, as the end of a sentence, or null if there is none. The faults
-- are more than `most` bytes, more than 64 levels of nesting, and a number that is too large for a double. Programs
-- that read the JSON decode it recursively, and its numbers as doubles. A short text cannot have the last two faults,
-- so most calls check only the length.
CREATE OR REPLACE FUNCTION farrier.json_fault(value jsonb, most integer) RETURNS text
    LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    size integer := octet_length(value::text);
BEGIN
    IF size > most THEN RETURN format('has %s bytes; at most %s are allowed', size, most); END IF;
    IF size > 128 AND jsonb_path_exists(value, 'strict $.**{64} ? (@.type() == "array" || @.type() == "object")') THEN
        RETURN 'is nested more than 64 levels deep';
    END IF;
    IF size > 308 AND jsonb_path_exists(value, 'strict $.** ? (@ > 1e308 || @ < -1e308)') THEN
        RETURN 'has a number beyond -1e308 or 1e308';
    END IF;
    RETURN NULL;
END $$;

-- Locks keys of a purpose until the transaction ends; a key stands for an object without a row of its own. Inserts the
-- missing rows of table locks, and locks the rows in the order of their hashes, so that two callers cannot deadlock.
-- Keys with the same hash share a lock.
CREATE OR REPLACE FUNCTION farrier.lock_keys(of_purpose text, keys text[]) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    wanted bigint[] := ARRAY(SELECT DISTINCT hashtextextended(k, 0) FROM unnest(keys) k ORDER BY 1);
BEGIN
    INSERT INTO locks SELECT of_purpose, w FROM unnest(wanted) w ORDER BY w ON CONFLICT DO NOTHING;
    PERFORM FROM locks l WHERE l.purpose = of_purpose AND l.key = ANY (wanted) ORDER BY l.key FOR UPDATE;
END $$;

-- Returns a new secret: 244 random bits from the operating system, as 64 hexadecimal digits.
CREATE OR REPLACE FUNCTION farrier.new_secret() RETURNS text LANGUAGE sql VOLATILE
    RETURN replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', '');

-- Returns what is wrong with one parameter, as the end of a sentence, or null. `rule` is an element of `fields` in
-- actions.params or kind_actions.params. Its keys are `type` and, depending on the type, `min`, `max`, `enum`,
-- `pattern` and `items`. The optional key `fault` has the text for a value that does not match the pattern; {value} in
-- the text stands for the value.
CREATE OR REPLACE FUNCTION farrier.param_fault(rule jsonb, value jsonb) RETURNS text
    LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    given text := value #>> '{}';
BEGIN
    IF rule IS NULL THEN RETURN 'is unknown'; END IF;
    IF rule ->> 'type' = 'boolean' THEN
        RETURN CASE WHEN jsonb_typeof(value) <> 'boolean' THEN 'must be true or false' END;
    END IF;
    IF rule ->> 'type' = 'object' THEN
        IF jsonb_typeof(value) <> 'object' THEN RETURN 'must be a JSON object'; END IF;
        RETURN (SELECT format('has the value %s for %L, which %s', left(e.value::text, 80), e.key, farrier.param_fault(rule -> 'items', e.value))
                  FROM jsonb_each(value) e
                 WHERE rule ? 'items' AND farrier.param_fault(rule -> 'items', e.value) IS NOT NULL ORDER BY e.key LIMIT 1);
    END IF;
    IF rule ->> 'type' = 'integer' THEN
        IF jsonb_typeof(value) <> 'number' OR given !~ '^-?[0-9]+$' THEN RETURN 'must be a whole number'; END IF;
        -- The default bounds are those of bigint.
        IF given::numeric < coalesce((rule ->> 'min')::numeric, -9223372036854775808) THEN
            RETURN format('must be %s or more', coalesce(rule ->> 'min', '-9223372036854775808'));
        END IF;
        IF given::numeric > coalesce((rule ->> 'max')::numeric, 9223372036854775807) THEN
            RETURN format('must be %s or less', coalesce(rule ->> 'max', '9223372036854775807'));
        END IF;
        RETURN NULL;
    END IF;
    IF rule ->> 'type' = 'array' THEN
        IF jsonb_typeof(value) <> 'array' THEN RETURN 'must be an array'; END IF;
        IF jsonb_array_length(value) > (rule ->> 'max')::integer THEN
            RETURN format('has more than %s elements', rule ->> 'max');
        END IF;
        RETURN (SELECT format('has an element that %s', farrier.param_fault(rule -> 'items', e))
                  FROM jsonb_array_elements(value) e WHERE farrier.param_fault(rule -> 'items', e) IS NOT NULL LIMIT 1);
    END IF;
    IF jsonb_typeof(value) <> 'string' THEN RETURN 'must be a string'; END IF;
    IF rule ? 'enum' AND NOT (rule -> 'enum') ? given THEN
        RETURN format('must be one of %s', (SELECT string_agg(e, ', ') FROM jsonb_array_elements_text(rule -> 'enum') e));
    END IF;
    IF char_length(given) > (rule ->> 'max')::integer THEN
        RETURN format('is longer than %s characters', rule ->> 'max');
    END IF;
    IF rule ? 'pattern' AND given !~ (rule ->> 'pattern') THEN
        RETURN CASE WHEN rule ? 'fault' THEN replace(rule ->> 'fault', '{value}', quote_literal(left(given, 80)))
                    WHEN rule ->> 'pattern' IN ('\S', '\A\S+\Z') THEN 'is blank or has blanks in it'
                    WHEN rule ->> 'pattern' = '.' THEN 'is empty'
                    ELSE format('does not match %s', rule ->> 'pattern') END;
    END IF;
    RETURN NULL;
END $$;

-- Returns a sentence about the first fault in the parameters of an action; null if there is none. `spec` is
-- actions.params or kind_actions.params: `fields` has a rule for each parameter, `any_of` lists the parameters of which
-- at least one is required, and `needs` maps a boolean parameter to the parameter that it requires when it is true.
CREATE OR REPLACE FUNCTION farrier.params_fault(spec jsonb, params jsonb) RETURNS text
    LANGUAGE plpgsql IMMUTABLE SET search_path = farrier, pg_temp AS $$
DECLARE
    field text;
    other text;
    fault text;
BEGIN
    IF jsonb_typeof(params) <> 'object' THEN RETURN 'params must be a JSON object'; END IF;
    FOR field IN SELECT jsonb_object_keys(params) LOOP
        fault := param_fault(spec -> 'fields' -> field, params -> field);
        IF fault IS NOT NULL THEN
            RETURN format('parameter %s %s; expected: %s', field, fault,
                coalesce((SELECT string_agg(k, ', ') FROM jsonb_object_keys(spec -> 'fields') k), 'none'));
        END IF;
    END LOOP;
    FOR field IN SELECT k FROM jsonb_object_keys(spec -> 'fields') k
                  WHERE (spec #> ARRAY['fields', k, 'required']) = 'true'::jsonb AND NOT params ? k LOOP
        RETURN format('parameter %s is missing', field);
    END LOOP;
    IF jsonb_array_length(spec -> 'any_of') > 0
       AND NOT params ?| ARRAY(SELECT jsonb_array_elements_text(spec -> 'any_of')) THEN
        RETURN format('needs at least one of: %s', (SELECT string_agg(e, ', ') FROM jsonb_array_elements_text(spec -> 'any_of') e));
    END IF;
    FOR field, other IN SELECT key, value FROM jsonb_each_text(spec -> 'needs') LOOP
        IF params -> field = 'true'::jsonb AND NOT params ? other THEN
            RETURN format('%s: true requires %s', field, other);
        END IF;
    END LOOP;
    RETURN NULL;
END $$;

-- Returns the settings that functions read. Raises an error if the row is missing, so that no function reads a null.
CREATE OR REPLACE FUNCTION farrier.read_settings() RETURNS farrier.settings
    LANGUAGE plpgsql STABLE SET search_path = farrier, pg_temp AS $$
DECLARE
    one settings;
BEGIN
    SELECT * INTO STRICT one FROM settings;
    RETURN one;
END $$;

-- Locks one key as lock_keys does, without waiting, and returns whether it obtained the lock. Waits only for a transaction that
-- adds the row of the same key.
CREATE OR REPLACE FUNCTION farrier.try_lock_key(of_purpose text, wanted text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    INSERT INTO locks SELECT of_purpose, hashtextextended(wanted, 0)
     WHERE NOT EXISTS (SELECT FROM locks l WHERE l.purpose = of_purpose AND l.key = hashtextextended(wanted, 0))
        ON CONFLICT DO NOTHING;
    PERFORM FROM locks l WHERE l.purpose = of_purpose AND l.key = hashtextextended(wanted, 0) FOR UPDATE SKIP LOCKED;
    RETURN FOUND;
END $$;

-- =====================================================================================================================
-- Functions: rights
-- =====================================================================================================================

-- Grants the roles of farrier their rights on the table of a kind: farrier_controller writes it, farrier_intents and
-- farrier_reader read it. These roles also get USAGE on the table's schema, in which PUBLIC may execute every function.
-- EXECUTE on its functions that run with the rights of the table's owner is therefore revoked from PUBLIC and granted
-- to farrier_controller; let_call grants it to further roles. Called by make_kind and grant_rights. May be repeated.
CREATE OR REPLACE FUNCTION farrier.grant_kind_rights(relation regclass) RETURNS void
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
DECLARE
    role_name text;
    place record;
    mighty record;
BEGIN
    SELECT c.relnamespace::regnamespace AS name, c.relnamespace AS id, c.relowner AS owner INTO place FROM pg_class c WHERE c.oid = relation;
    FOR role_name IN SELECT rolname FROM pg_roles WHERE rolname IN ('farrier_controller', 'farrier_intents', 'farrier_reader') LOOP
        EXECUTE format('GRANT USAGE ON SCHEMA %s TO %I', place.name, role_name);
        EXECUTE format('GRANT %s ON %s TO %I',
            CASE role_name WHEN 'farrier_controller' THEN 'SELECT, INSERT, UPDATE, DELETE' ELSE 'SELECT' END, relation, role_name);
    END LOOP;
    IF place.name::text IN ('farrier', 'public') THEN RETURN; END IF;
    FOR mighty IN SELECT p.oid::regprocedure AS function FROM pg_proc p
                   WHERE p.pronamespace = place.id AND p.prosecdef AND p.proowner = place.owner AND p.prokind = 'f' LOOP
        EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', mighty.function);
        IF to_regrole('farrier_controller') IS NOT NULL THEN
            EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO farrier_controller', mighty.function);
        END IF;
    END LOOP;
END $$;

-- Grants the rights that depend on the installed kinds: those on their tables (grant_kind_rights), and those on functions that
-- let_call recorded. Called by every migration and every installation of a kind. May be repeated.
CREATE OR REPLACE FUNCTION farrier.grant_rights() RETURNS void
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
DECLARE
    one record;
BEGIN
    PERFORM grant_kind_rights(k.relation) FROM kinds k JOIN pg_class c ON c.oid = k.relation WHERE k.from_template;
    -- Skips functions that were dropped with the schema of their kind.
    FOR one IN SELECT c.* FROM callable c WHERE to_regrole(c.role_name) IS NOT NULL AND to_regprocedure(c.function) IS NOT NULL LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', one.function::regprocedure, one.role_name);
    END LOOP;
END $$;

-- Lets a role call a function that no file in rights names, such as a function of a kind, and records the right in
-- table callable, so that grant_rights grants it again. May be repeated. A role that does not exist yet gets the right
-- from the first migration after it is created.
CREATE OR REPLACE FUNCTION farrier.let_call(role_name text, function text) RETURNS void
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
BEGIN
    INSERT INTO callable VALUES (role_name, function::regprocedure::text) ON CONFLICT DO NOTHING;
    IF to_regrole(role_name) IS NOT NULL THEN
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', function::regprocedure, role_name);
    END IF;
END $$;

-- =====================================================================================================================
-- Functions: time
-- =====================================================================================================================

-- Records one pulse of a controller and returns by how much the database's clock was set back since the last pulse;
-- null if it was not. A setback is also recorded in mends. Controllers call it every two seconds; concurrent calls take
-- turns on the row of pulse. Differences of up to 10 seconds are ignored: calls that waited for each other, and clocks
-- that are adjusted in small steps, cause smaller differences, and every limit is longer. A longer gap between pulses is
-- recorded in pulse_gaps.
CREATE OR REPLACE FUNCTION farrier.beat() RETURNS interval
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    last timestamptz;
    now timestamptz;
    back interval;
BEGIN
    SELECT p.at INTO last FROM pulse p FOR NO KEY UPDATE;
    now := farrier.now();
    IF last - now > interval '10 seconds' THEN
        back := last - now;
        INSERT INTO mends (back) VALUES (back);
        DELETE FROM pulse_gaps g WHERE g.until > now;
    ELSIF now - last > interval '10 seconds' THEN
        INSERT INTO pulse_gaps (until, lasted) VALUES (now, now - last) ON CONFLICT DO NOTHING;
        DELETE FROM pulse_gaps g WHERE g.until < now - interval '7 days';
    END IF;
    UPDATE pulse p SET at = CASE WHEN back IS NULL THEN greatest(p.at, now) ELSE now END;
    RETURN back;
END $$;

-- Returns whether a JSON field of this name holds a time of the database's clock. synced_at holds a time of the MAAS
-- region's clock.
CREATE OR REPLACE FUNCTION farrier.is_a_time(name text) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    RETURN name <> 'synced_at' AND (name LIKE '%\_at' OR name LIKE '%\_until' OR name LIKE '%\_since'
                                    OR name IN ('at', 'since', 'until', 'tries', 'trying'));

-- Returns whether a column or JSON field of this name has the time of a future event. All other times are those of past events.
CREATE OR REPLACE FUNCTION farrier.is_of_the_future(name text) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    RETURN name LIKE 'next\_%' OR name LIKE '%\_until' OR name IN ('until', 'expires_at', 'due_at');

-- Mends one batch of at most at_most rows after the oldest setback in mends: replaces stored times later than farrier.now(). The time
-- of a past event becomes now, from which limits count; the time of a future event becomes earlier by the length of the setback.
-- Returns whether rows are left and, once a setback is finished, its length in done. Controllers call it until no rows
-- are left. One session works at a time, and other sessions return at once; after a session dies, the next session
-- continues from the progress in mends.
CREATE OR REPLACE FUNCTION farrier.mend(at_most integer, OUT more boolean, OUT done interval)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    now timestamptz := farrier.now();
    mend mends;
    one record;
    ids bigint[];
    last bigint;
BEGIN
    more := false;
    SELECT * INTO mend FROM mends m WHERE m.id = (SELECT min(id) FROM mends) FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN RETURN; END IF;
    SELECT * INTO one FROM mendable() m
     WHERE m.place COLLATE "C" > mend.place OR m.place = mend.place AND mend.after IS NOT NULL
     ORDER BY m.place COLLATE "C" LIMIT 1;
    IF NOT FOUND THEN
        DELETE FROM mends m WHERE m.id = mend.id;
        done := mend.back;
    ELSIF one.kind IS NOT NULL THEN
        EXECUTE format('SELECT array_agg(id), max(id) FROM (SELECT id FROM %s WHERE id > $1 ORDER BY id LIMIT $2) r', one.relation)
           INTO ids, last USING CASE WHEN one.place = mend.place THEN mend.after ELSE 0 END, at_most;
        PERFORM mend_rows(one.kind, one.relation, ids, one.changes, one.wrong, now, mend.back);
        UPDATE mends m SET place = one.place, after = CASE WHEN cardinality(ids) = at_most THEN last END WHERE m.id = mend.id;
    ELSE
        EXECUTE format('WITH changed AS (UPDATE %1$s SET %2$s WHERE ctid = ANY (ARRAY(
                                SELECT ctid FROM %1$s WHERE %3$s LIMIT $4 FOR NO KEY UPDATE)) RETURNING 1)
                        SELECT count(*) FROM changed', one.relation, one.changes, one.wrong)
           INTO last USING now, mend.back, mend.noticed, at_most;
        UPDATE mends m SET place = one.place, after = CASE WHEN last = at_most THEN 0 END WHERE m.id = mend.id;
    END IF;
    more := EXISTS (SELECT FROM mends);
END $$;

-- Mends the rows of a kind with these ids, and the rows of its layers in other tables; changes and wrong are
-- expressions of mendable. If the schema of the kind's table has a function KIND_unseen(bigint[]), calls it with the
-- resources that have a running step. Increments by two, which no commit does, the version of each row that it changes
-- or that has a running step: the run was decided on the old time, so its commit is a conflict and it is decided again.
-- Enqueues all these resources, because a controller has their old times in memory, including times from tables that
-- were mended before. Locks the rows in the order of ids. Called by mend.
CREATE OR REPLACE FUNCTION farrier.mend_rows(of_kind text, relation regclass, ids bigint[], changes text, wrong text, now timestamptz, back interval) RETURNS void
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
DECLARE
    anew bigint[];
    more bigint[];
    inner_table record;
    unseen text := (SELECT format('%I.%I', c.relnamespace::regnamespace::text, of_kind || '_unseen') FROM pg_class c WHERE c.oid = relation);
BEGIN
    EXECUTE format('SELECT FROM %s WHERE id = ANY ($1) ORDER BY id FOR NO KEY UPDATE', relation) USING ids;
    anew := ARRAY(SELECT e.resource FROM effects e WHERE e.kind = of_kind AND e.resource = ANY (ids));
    IF to_regprocedure(unseen || '(bigint[])') IS NOT NULL THEN
        EXECUTE format('SELECT %s($1)', unseen) USING anew;
    END IF;
    FOR inner_table IN
        SELECT m.* FROM mendable() m WHERE m.relation IN (SELECT l.relation FROM kind_layers l WHERE l.kind = of_kind)
    LOOP
        EXECUTE format('WITH changed AS (UPDATE %1$s SET %2$s WHERE %3$I = ANY ($3) AND (%4$s) RETURNING %3$I)
                        SELECT array_agg(%3$I) FROM changed', inner_table.relation, inner_table.changes, of_kind || '_id', inner_table.wrong)
           INTO more USING $6, back, ids;
        anew := anew || more;
    END LOOP;
    EXECUTE format('UPDATE %s SET version = version + 2, %s WHERE id = ANY ($3) AND (%s OR id = ANY ($4))', relation, changes, wrong)
      USING $6, back, ids, anew;
    INSERT INTO wakes (kind, resource) SELECT of_kind, l.id FROM living(of_kind, ids) l (id);
END $$;

-- Returns the tables whose times mend corrects, in the order of place, each with the assignments (changes) that correct
-- a row, and the condition (wrong) of such a row; in both, $1 is now, $2 the length of the setback, $3 the transaction
-- that recorded it. Tables of kinds have kind set and come last, because a run also reads rows of other tables, which
-- must be mended before it is enqueued. Rows of tables of kinds also get a new version, because a run writes them as it
-- read them. Rows of other tables need no new version, because the statements that write them read the time
-- themselves. Left out are history, which
-- keeps the times that it was written with; wakes, on whose times no decision depends; records of the schema, which
-- hold the server's time; and JSON whose content other programs wrote.
CREATE OR REPLACE FUNCTION farrier.mendable(OUT place text, OUT relation regclass, OUT kind text, OUT changes text, OUT wrong text) RETURNS SETOF record
    LANGUAGE sql STABLE SET search_path = farrier, pg_temp AS $$
    WITH columns AS (
        SELECT c.oid, k.kind, a.attname, a.atttypid = 'jsonb'::regtype AS is_json,
               is_of_the_future(a.attname) AS of_the_future,
               -- A row that was written after the setback was recorded has correct future times.
               CASE WHEN k.kind IS NULL AND c.oid NOT IN (SELECT l.relation FROM kind_layers l WHERE l.relation IS NOT NULL)
                    THEN ' AND age(xmin) >= age($3)' ELSE '' END AS if_older
          FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid LEFT JOIN kinds k ON k.relation = c.oid
         WHERE c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
           AND a.atttypid IN ('timestamptz'::regtype, 'jsonb'::regtype)
           AND NOT (a.atttypid = 'jsonb'::regtype
                    AND a.attname IN ('labels', 'params', 'facts', 'health', 'options', 'result', 'value', 'detail', 'cursor'))
           AND (c.relnamespace = 'farrier'::regnamespace OR k.kind IS NOT NULL)
           AND c.oid <> ALL (ARRAY['history', 'wakes', 'migrator', 'schema_steps', 'schema_set', 'pulse', 'resources']::regclass[])
    ), each AS (
        SELECT x.oid, x.kind, x.attname,
               CASE WHEN x.is_json THEN format('mended(%I, $1, $2, %L)', x.attname, x.attname)
                    ELSE format('CASE WHEN %1$I > $1 AND isfinite(%1$I) THEN %2$s ELSE %1$I END', x.attname,
                                CASE WHEN x.of_the_future OR x.oid = 'bmc_logins'::regclass THEN format('%I - $2', x.attname) ELSE '$1' END) END AS becomes,
               CASE WHEN x.is_json THEN format('(%1$I::text LIKE ''%%-__-__T__:__:%%'' AND mended(%1$I, $1, $2, %2$L) <> %1$I%3$s)', x.attname, x.attname, x.if_older)
                    ELSE format('(%1$I > $1 AND isfinite(%1$I)%2$s)', x.attname, CASE WHEN x.of_the_future THEN x.if_older ELSE '' END) END AS wrong
          FROM columns x
    )
    SELECT CASE WHEN e.kind IS NULL THEN '1 ' ELSE '2 ' END || e.oid::regclass::text, e.oid::regclass, e.kind,
           string_agg(format('%I = %s', e.attname, e.becomes), ', ' ORDER BY e.attname),
           string_agg(e.wrong, ' OR ' ORDER BY e.attname)
      FROM each e GROUP BY e.oid, e.kind
$$;

-- Returns JSON in which each time beyond now is replaced by the rules of mend; name is the field that has the value. Times of logins
-- (tries, trying) become earlier by the length of the setback, as future times do: they identify the logins, so their distances must
-- not change.
CREATE OR REPLACE FUNCTION farrier.mended(value jsonb, now timestamptz, back interval, name text) RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE SET search_path = farrier, pg_temp AS $$
DECLARE
    at timestamptz;
BEGIN
    IF jsonb_typeof(value) = 'object' THEN
        RETURN (SELECT coalesce(jsonb_object_agg(e.key, farrier.mended(e.value, $2, back, CASE $4 WHEN 'unreadable' THEN 'next_at' ELSE e.key END)), '{}')
                  FROM jsonb_each(value) e);
    ELSIF jsonb_typeof(value) = 'array' THEN
        RETURN (SELECT coalesce(jsonb_agg(farrier.mended(e.value, $2, back, $4) ORDER BY e.ordinality), '[]')
                  FROM jsonb_array_elements(value) WITH ORDINALITY e);
    ELSIF jsonb_typeof(value) <> 'string' OR NOT farrier.is_a_time($4)
       OR value #>> '{}' !~ '^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$' THEN
        RETURN value;
    END IF;
    at := value #>> '{}';
    RETURN CASE WHEN at <= $2 THEN value
                WHEN farrier.is_of_the_future($4) OR $4 IN ('tries', 'trying') THEN to_jsonb(at - back)
                ELSE to_jsonb($2) END;
END $$;

-- Records in these nodes that the end of a run is unknown: a power action may have been sent (switching is unsure), and a login may
-- have been refused, so it stays counted and no run may use it (trying is removed). Called by mend_rows.
CREATE OR REPLACE FUNCTION farrier.node_unseen(ids bigint[]) RETURNS void
    LANGUAGE sql SET search_path = farrier, pg_temp AS $$
    UPDATE farrier.nodes n
       SET bmc = (n.bmc - 'trying') || CASE WHEN n.bmc ? 'switching'
                                           THEN jsonb_build_object('switching', n.bmc -> 'switching' || '{"unsure": true}') ELSE '{}' END
     WHERE n.id = ANY (ids) AND n.bmc ?| ARRAY['switching', 'trying']
$$;

-- =====================================================================================================================
-- Functions: loop
-- =====================================================================================================================

-- Begins a commit of runs of one kind: locks the shards, and returns the runs whose shards the controller owns under these
-- epochs, with their part of changes and records. Waits for a lock, here and later in the statement, for at most 50 ms,
-- or for a second if patient. The statement that commits passes changes to the kind's writer, (jsonb) RETURNS TABLE (run
-- bigint, due_in interval), and the result to end_commit. `changes` and `records` are objects of arrays, the sections,
-- whose elements name their run. The writer locks the resources in ascending order, compares the versions in section
-- `runs`, writes the states and everything else in changes, and returns the runs for which it wrote nothing because their
-- snapshots are outdated; these are due after due_in.
CREATE OR REPLACE FUNCTION farrier.begin_commit(
    of_kind text, controller uuid, of_shards smallint[], epochs bigint[], patient boolean, ids bigint[], changes jsonb, records jsonb)
    RETURNS TABLE (held_runs bigint[], held_changes jsonb, held_records jsonb)
    LANGUAGE plpgsql AS $$
DECLARE
    held   smallint[];
    unused text;
BEGIN
    -- A client may have locked rows that one run writes, and all runs of the call would wait for that client. So this
    -- call waits only briefly, and the controller then commits that run alone, with `patient`.
    -- An assignment, unlike PERFORM, executes no query.
    unused := set_config('lock_timeout', CASE WHEN patient THEN '1s' ELSE '50ms' END, true);
    -- Outcomes and wakes alone need not wait for the disk: after a crash of the server everything is loaded and run again.
    IF NOT records ? 'moves' AND NOT EXISTS (SELECT FROM jsonb_each(changes - 'runs') e WHERE e.value <> '[]') THEN
        unused := set_config('synchronous_commit', 'off', true);
    END IF;
    held := farrier.hold_shards(of_kind, controller, of_shards, epochs);
    held_runs := ids;
    IF cardinality(held) < cardinality(of_shards) THEN
        held_runs := ARRAY(SELECT r FROM unnest(ids) r WHERE farrier.shard_of(r) = ANY (held));
        changes := farrier.filter_runs(changes, held_runs);
        records := farrier.filter_runs(records, held_runs);
    END IF;
    held_changes := changes;
    held_records := records;
    RETURN NEXT;
END $$;

-- Ends a commit of runs of one kind: records what their resources do not store, and returns the verdict of each of `ids`:
-- `lost` if it is not among held_runs, `conflict` if the writer wrote nothing for it (it is then due after the delay in
-- dues), and `committed` otherwise. Sections of `records`: `moves` (see record_moves), `outcomes` [{run, outcome, key}],
-- and `wakes` [{run, wake}], the wakes in the snapshots of the runs, which this function deletes. See begin_commit.
CREATE OR REPLACE FUNCTION farrier.end_commit(
    of_kind text, controller uuid, ids bigint[], held_runs bigint[], records jsonb, conflicts bigint[], dues interval[])
    RETURNS TABLE (id bigint, verdict text, due_in interval)
    LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    won bigint[] := held_runs;
BEGIN
    IF conflicts IS NOT NULL THEN
        won := ARRAY(SELECT r FROM unnest(won) r WHERE r <> ALL (conflicts));
        records := farrier.filter_runs(records, won);
        RETURN QUERY SELECT c.run, 'conflict', c.due_in FROM unnest(conflicts, dues) c (run, due_in);
    END IF;
    IF records ? 'moves' THEN
        PERFORM farrier.record_moves(of_kind, controller, records -> 'moves');
    END IF;
    IF records ? 'outcomes' THEN
        INSERT INTO farrier.outcomes AS o (kind, id, at, outcome, key)
        SELECT of_kind, r.run, farrier.now(), r.outcome, r.key
          FROM jsonb_to_recordset(records -> 'outcomes') r (run bigint, outcome jsonb, key integer)
            ON CONFLICT (kind, id) DO UPDATE SET at = excluded.at, outcome = excluded.outcome, key = excluded.key
         WHERE (o.outcome, o.key) IS DISTINCT FROM (excluded.outcome, excluded.key);
    END IF;
    IF records ? 'wakes' THEN
        -- Finds each wake by its key: a join planned while the table was empty would read all wakes of the kind. Wakes
        -- are never updated, so a ctid stays valid.
        DELETE FROM farrier.wakes w
         WHERE w.ctid = ANY (ARRAY(
                   SELECT found.ctid
                     FROM jsonb_to_recordset(records -> 'wakes') r (run bigint, wake uuid)
                    CROSS JOIN LATERAL (
                          SELECT x.ctid FROM farrier.wakes x
                           WHERE x.kind = of_kind AND x.resource = r.run AND x.id = r.wake OFFSET 0) found));
    END IF;
    -- Checks deferred constraints before the verdicts are returned, so that a refused run is never reported as committed.
    SET CONSTRAINTS ALL IMMEDIATE;
    RETURN QUERY SELECT r, 'committed', interval '0' FROM unnest(won) r;
    RETURN QUERY SELECT r, 'lost', interval '0' FROM unnest(ids) r WHERE r <> ALL (held_runs);
END $$;

-- Enqueues a resource: its handler runs as soon as possible after COMMIT. May be repeated. FR400 for a null or an unknown kind,
-- FR404 for a resource that does not exist or has ended; a resource does not exist before its registration commits.
CREATE OR REPLACE FUNCTION farrier.enqueue(kind text, id bigint) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    IF kind IS NULL OR id IS NULL THEN
        RAISE EXCEPTION 'expected a kind and an ID; got % and %', coalesce(quote_literal(kind), 'null'), coalesce(id::text, 'null')
            USING ERRCODE = 'FR400';
    END IF;
    IF NOT EXISTS (SELECT FROM living($1, ARRAY[$2])) THEN
        RAISE EXCEPTION 'no % has ID %: it was never registered, or has ended', kind, id
            USING ERRCODE = 'FR404', HINT = 'A deleted resource accepts no intents; register it again, with a new ID.';
    END IF;
    INSERT INTO wakes (kind, resource) VALUES ($1, $2);
END $$;

-- Returns the part of changes that belongs to these runs. changes is an object of arrays, the sections, whose elements name their
-- run; see begin_commit.
CREATE OR REPLACE FUNCTION farrier.filter_runs(changes jsonb, runs bigint[]) RETURNS jsonb
    LANGUAGE sql STABLE
    RETURN (SELECT coalesce(jsonb_object_agg(section.key, section.kept), '{}') FROM (
        SELECT e.key, (SELECT coalesce(jsonb_agg(c), '[]') FROM jsonb_array_elements(e.value) c
                        WHERE (c ->> 'run')::bigint = ANY (runs)) AS kept
          FROM jsonb_each(changes) e) section);

-- Returns the shards that the controller owns under these epochs, and locks them until the transaction ends: a
-- controller that takes orphaned shards skips locked ones, so it loads their resources only after this transaction has
-- ended. Without the lock, another controller could take a shard and load before an open transaction commits.
CREATE OR REPLACE FUNCTION farrier.hold_shards(of_kind text, controller uuid, of_shards smallint[], epochs bigint[]) RETURNS smallint[]
    LANGUAGE plpgsql AS $$
BEGIN
    RETURN ARRAY(
        SELECT s.shard FROM farrier.shards s JOIN unnest(of_shards, epochs) o (shard, epoch) ON o.shard = s.shard
         WHERE s.kind = of_kind AND s.owner = controller AND s.epoch = o.epoch
         ORDER BY s.shard FOR SHARE OF s);
END $$;

-- Returns the resources of these shards that a controller loads: those that have not ended, and those with a wake or
-- the mark of a step, for which `woken` is true. A resource may have several rows.
CREATE OR REPLACE FUNCTION farrier.list_shards(of_kind text, of_shards smallint[]) RETURNS TABLE (id bigint, woken boolean, step text)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    kind kinds := kind_of(of_kind);
BEGIN
    RETURN QUERY SELECT DISTINCT w.resource, true, NULL FROM wakes w WHERE w.kind = of_kind AND shard_of(w.resource) = ANY (of_shards);
    RETURN QUERY SELECT e.resource, true, e.step FROM effects e WHERE e.kind = of_kind AND shard_of(e.resource) = ANY (of_shards);
    -- ARRAY(...) hides the number of shards from the planner: if it estimated many, it would read the table in the order of the
    -- index.
    RETURN QUERY EXECUTE format('SELECT id, false, NULL::text FROM %s WHERE farrier.shard_of(id) = ANY (ARRAY(SELECT unnest($1))) AND %s',
                                kind.relation, kind.living) USING of_shards;
END $$;

-- Returns the ids of the resources that exist and have not ended. Raises an error for an unknown kind and a kind
-- without a table; see kind_of.
CREATE OR REPLACE FUNCTION farrier.living(of_kind text, ids bigint[]) RETURNS SETOF bigint
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    kind kinds := kind_of(of_kind);
BEGIN
    RETURN QUERY EXECUTE format('SELECT id FROM %s WHERE id = ANY ($1) AND %s', kind.relation, kind.living) USING ids;
END $$;

-- Makes the shards of a kind. May be repeated.
CREATE OR REPLACE FUNCTION farrier.make_shards(of_kind text) RETURNS void
    LANGUAGE sql SET search_path = farrier, pg_temp AS $$
    INSERT INTO shards (kind, shard) SELECT of_kind, generate_series(0, 63) ON CONFLICT DO NOTHING;
$$;

-- Marks steps that are about to begin, at most one for each resource, and removes the marks of ended steps; for these resources, it
-- also removes marks of former owners. Returns the marked resources. Skips shards that this controller does not own under these
-- epochs. A controller that takes a shard recovers from the steps whose marks it finds. A statement whose connection
-- was lost may run after a later statement: its number is lower, so it does nothing.
CREATE OR REPLACE FUNCTION farrier.mark_steps(
    of_kind text, of_controller uuid, of_shards smallint[], epochs bigint[], of_number bigint, begun bigint[], names text[],
    ended bigint[])
    RETURNS SETOF bigint
    LANGUAGE plpgsql AS $$
DECLARE
    held smallint[];
    gone text[];
BEGIN
    PERFORM farrier.on_disk();
    held := farrier.hold_shards(of_kind, of_controller, of_shards, epochs);
    gone := ARRAY(SELECT id::text FROM unnest(begun || ended) id WHERE farrier.shard_of(id) = ANY (held));
    -- This statement is the first because it compares the numbers and locks the row, so that calls run one after the
    -- other.
    INSERT INTO farrier.marks AS m (controller, kind, number, steps)
    SELECT of_controller, of_kind, of_number,
           coalesce(jsonb_object_agg(b.id, jsonb_build_object('step', b.name, 'begun_at', farrier.now())), '{}')
      FROM unnest(begun, names) b (id, name) WHERE farrier.shard_of(b.id) = ANY (held)
        ON CONFLICT (controller, kind) DO UPDATE SET number = excluded.number, steps = (m.steps - gone) || excluded.steps
     WHERE m.number < excluded.number;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF gone <> '{}' AND EXISTS (SELECT FROM farrier.marks m WHERE m.kind = of_kind AND m.controller <> of_controller AND m.steps ?| gone) THEN
        PERFORM FROM farrier.marks m WHERE m.kind = of_kind AND m.controller <> of_controller AND m.steps ?| gone ORDER BY m.controller FOR UPDATE;
        UPDATE farrier.marks m SET steps = m.steps - gone WHERE m.kind = of_kind AND m.controller <> of_controller AND m.steps ?| gone;
        -- Keeps the row of a living controller, whose number later statements compare.
        DELETE FROM farrier.marks m
         WHERE m.kind = of_kind AND m.controller <> of_controller AND m.steps = '{}'
           AND NOT EXISTS (SELECT FROM farrier.controllers c WHERE c.id = m.controller AND NOT c.expired);
    END IF;
    RETURN QUERY SELECT id FROM unnest(begun) id WHERE farrier.shard_of(id) = ANY (held);
END $$;

-- Sets outcomes.error_at: the time since which every run of the resource has ended in the same error. Trigger function.
CREATE OR REPLACE FUNCTION farrier.note_error() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.error_at := CASE WHEN TG_OP = 'UPDATE' AND OLD.error = NEW.outcome ->> 'error' THEN least(OLD.error_at, NEW.at) ELSE NEW.at END;
    RETURN NEW;
END $$;

-- Notifies channel farrier_wake of new wakes at COMMIT: `KIND:ID,ID,...`, or `KIND:*` for more than 300 resources. AFTER INSERT
-- trigger on wakes.
CREATE OR REPLACE FUNCTION farrier.notify_wakes() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    PERFORM pg_notify('farrier_wake', n.kind || ':' || CASE WHEN n.many <= 300 THEN n.ids ELSE '*' END)
       FROM (SELECT d.kind, count(*) AS many, string_agg(d.resource::text, ',' ORDER BY d.resource) AS ids
               FROM (SELECT DISTINCT kind, resource FROM new_rows) d GROUP BY d.kind) n;
    RETURN NULL;
END $$;

-- Makes the COMMIT of the transaction wait until it is on disk, independent of the setting of the session. Returns true.
CREATE OR REPLACE FUNCTION farrier.on_disk() RETURNS boolean
    LANGUAGE sql VOLATILE AS $$
    SELECT set_config('synchronous_commit', CASE WHEN current_setting('synchronous_commit') IN ('off', 'local') THEN 'on'
                                                 ELSE current_setting('synchronous_commit') END, true) IS NOT NULL
$$;

-- Records in history the moves of resources whose shards this controller owns; FR409 for any other resource. `moves` is
-- [{run, version, layer, from_value, to_value, entered, cause, reason, source}]; the layer entered from_value at
-- `entered`. Called by end_commit and write_details. Runs as the owner, because no role may insert into history.
CREATE OR REPLACE FUNCTION farrier.record_moves(of_kind text, controller uuid, moves jsonb) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    recorded bigint;
BEGIN
    INSERT INTO history (kind, id, version, layer, from_value, to_value, at, seconds_in_source, cause, reason, source, controller, epoch)
    SELECT of_kind, r.run, r.version, r.layer, r.from_value, r.to_value, farrier.now(),
           CASE WHEN r.entered IS NOT NULL THEN extract(epoch FROM greatest(farrier.now() - r.entered, '0')) END, r.cause, r.reason, r.source,
           s.owner, s.epoch
      FROM jsonb_to_recordset(moves) r (
           run bigint, version bigint, layer text, from_value text, to_value text, entered timestamptz, cause text, reason text, source text)
      JOIN shards s ON s.kind = of_kind AND s.shard = shard_of(r.run) AND s.owner = record_moves.controller;
    GET DIAGNOSTICS recorded = ROW_COUNT;
    IF recorded < jsonb_array_length(moves) THEN
        RAISE EXCEPTION 'history can only be recorded for resources in shards of this controller'
            USING ERRCODE = 'FR409', HINT = 'farrier.end_commit records history.';
    END IF;
END $$;

-- Returns the part of `changes` that belongs to runs other than `runs`; see filter_runs.
CREATE OR REPLACE FUNCTION farrier.runs_without(changes jsonb, runs bigint[]) RETURNS jsonb
    LANGUAGE sql STABLE
    RETURN farrier.filter_runs(changes, ARRAY(
        SELECT c.run FROM jsonb_to_recordset(changes -> 'runs') c (run bigint) WHERE c.run <> ALL (runs)));

-- Finds out which runs were committed by a commit whose reply the controller did not receive. Locks each resource; if
-- the commit has not happened, increments the version so that it can never happen. The increment is two, so that a
-- repeated call does not mistake it for a commit. Returns the committed runs; `at` is the time of a run that changed a
-- layer, null for other runs. `versions` are the versions on which the runs were decided.
CREATE OR REPLACE FUNCTION farrier.settle_runs(of_kind text, controller uuid, ids bigint[], versions bigint[])
    RETURNS TABLE (id bigint, at timestamptz)
    LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    found bigint[];
    current bigint[];
BEGIN
    PERFORM farrier.on_disk();
    EXECUTE format('WITH l AS MATERIALIZED (SELECT id, version FROM %1$s WHERE id = ANY ($1) ORDER BY id FOR NO KEY UPDATE),
                         u AS (UPDATE %1$s r SET version = l.version + 2 FROM l JOIN unnest($1, $2) d (id, version) USING (id, version)
                                WHERE r.id = l.id)
                    SELECT array_agg(id), array_agg(version) FROM l',
                   (farrier.kind_of(of_kind)).relation) INTO found, current USING ids, versions;
    RETURN QUERY SELECT r.id, min(h.at)
      FROM unnest(ids, versions) r (id, version)
      JOIN unnest(found, current) f (id, version) ON f.id = r.id AND f.version = r.version + 1
      LEFT JOIN farrier.history h ON h.kind = of_kind AND h.id = r.id AND h.version = r.version + 1 AND h.controller = settle_runs.controller
     GROUP BY r.id;
END $$;

-- Returns the shard of a resource.
CREATE OR REPLACE FUNCTION farrier.shard_of(id bigint) RETURNS smallint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (id % 64)::smallint;

-- =====================================================================================================================
-- Functions: history
-- =====================================================================================================================

-- Examines up to `most` rows of history from before cutoff, oldest first, after the given key (nulls: from the beginning), and
-- deletes those that are no longer needed; with `really` false, it only counts them. The newest row of each layer is
-- needed while its resource has not ended, because it explains the current state. Returns how many rows it examined and
-- deleted, and the key of the last examined row. No role may delete history; this function runs as the owner.
CREATE OR REPLACE FUNCTION farrier.prune_history(
    cutoff timestamptz, after_at timestamptz, after_id bigint, after_version bigint, after_kind text, after_layer text,
    most integer, really boolean)
    RETURNS TABLE (looked bigint, deleted bigint, at timestamptz, id bigint, version bigint, kind text, layer text)
    LANGUAGE sql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
    WITH looked AS MATERIALIZED (
        SELECT h.ctid AS place, h.at, h.id, h.version, h.kind, h.layer
          FROM farrier.history h
         WHERE (h.at, h.id, h.version, h.kind, h.layer)
             > (coalesce(after_at, '-infinity'), coalesce(after_id, -1), coalesce(after_version, -1), coalesce(after_kind, ''), coalesce(after_layer, ''))
           AND h.at < cutoff
         ORDER BY h.at, h.id, h.version, h.kind, h.layer
         LIMIT most
    ), alive AS MATERIALIZED (
        -- No resource of a removed kind, or of a kind whose table was dropped, is alive.
        SELECT g.kind, r.id
          FROM (SELECT l.kind, array_agg(DISTINCT l.id) AS ids
                  FROM looked l JOIN farrier.kinds k ON k.kind = l.kind JOIN pg_class c ON c.oid = k.relation
                 GROUP BY l.kind) g
         CROSS JOIN LATERAL farrier.living(g.kind, g.ids) r (id)
    ), spent AS MATERIALIZED (
        -- LIMIT keeps the planner from hashing a whole table to look up a few rows.
        SELECT l.place FROM looked l
         WHERE (SELECT true FROM farrier.history n
                 WHERE n.kind = l.kind AND n.id = l.id AND n.version > l.version AND n.layer = l.layer LIMIT 1) IS NOT NULL
            OR (l.kind, l.id) NOT IN (SELECT a.kind, a.id FROM alive a)
    ), gone AS (
        DELETE FROM farrier.history h WHERE really AND h.ctid = ANY (ARRAY(SELECT s.place FROM spent s))
    )
    SELECT (SELECT count(*) FROM looked), (SELECT count(*) FROM spent), l.at, l.id, l.version, l.kind, l.layer
      FROM (SELECT) one
      LEFT JOIN (SELECT * FROM looked ORDER BY at DESC, id DESC, version DESC, kind DESC, layer DESC LIMIT 1) l ON true;
$$;

-- Records the first value of each layer of a resource in history, with its cause. `new` has id, version, and the value of each layer by
-- its name. The rows have no from_value, and their controller and epoch are zero. SECURITY DEFINER functions call it: no role of farrier
-- may insert into history.
CREATE OR REPLACE FUNCTION farrier.record_beginning(of_kind text, new jsonb, cause text, reason text) RETURNS void
    LANGUAGE sql SET search_path = farrier, pg_temp AS $$
    INSERT INTO farrier.history (kind, id, version, layer, to_value, at, cause, reason, source, controller, epoch)
    SELECT $1, ($2 ->> 'id')::bigint, ($2 ->> 'version')::bigint, l.layer, $2 ->> l.layer, farrier.now(), $3, $4, 'database',
           '00000000-0000-0000-0000-000000000000', 0
      FROM farrier.kind_layers l WHERE l.kind = $1 AND $2 ->> l.layer IS NOT NULL;
$$;

-- Executes the next step of the pass over old history, if the step is due and no other session executes it: prunes up
-- to `most` rows that are older than `keep`. The steps of a pass are `pause` apart, and the passes are `every` apart.
-- Called by controllers. The row of history_retention is the lock and stores the progress, so another controller
-- continues the pass of a controller that died. Returns when the next step is due, whether this step ended the pass,
-- and the counts and the duration of the pass so far.
CREATE OR REPLACE FUNCTION farrier.retain_history(keep interval, most integer, pause interval, every interval)
    RETURNS TABLE (due_in interval, ended boolean, looked bigint, deleted bigint, took interval)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
#variable_conflict use_column
DECLARE
    pass farrier.history_retention;
    step record;
    over boolean;
BEGIN
    SELECT * INTO pass FROM farrier.history_retention FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN QUERY SELECT pause, false, 0::bigint, 0::bigint, interval '0';
        RETURN;
    END IF;
    IF pass.due_at > farrier.now() THEN
        RETURN QUERY SELECT pass.due_at - farrier.now(), false, pass.looked, pass.deleted, interval '0';
        RETURN;
    END IF;
    IF pass.began_at IS NULL THEN
        pass.began_at := farrier.now();
        pass.looked := 0;
        pass.deleted := 0;
    END IF;
    SELECT * INTO step
      FROM farrier.prune_history(farrier.now() - keep, pass.at, pass.id, pass.version, pass.kind, pass.layer, most, true);
    over := step.looked < most;
    UPDATE farrier.history_retention r
       SET due_at = farrier.now() + CASE WHEN over THEN every ELSE pause END,
           began_at = CASE WHEN over THEN NULL ELSE pass.began_at END,
           looked = pass.looked + step.looked, deleted = pass.deleted + step.deleted,
           at = CASE WHEN over THEN NULL ELSE step.at END, id = CASE WHEN over THEN NULL ELSE step.id END,
           version = CASE WHEN over THEN NULL ELSE step.version END,
           kind = CASE WHEN over THEN NULL ELSE step.kind END, layer = CASE WHEN over THEN NULL ELSE step.layer END;
    RETURN QUERY SELECT CASE WHEN over THEN every ELSE pause END, over, pass.looked + step.looked, pass.deleted + step.deleted,
                        farrier.now() - pass.began_at;
END $$;

-- =====================================================================================================================
-- Functions: nodes
-- =====================================================================================================================

-- Returns the range of systems that a BMC address covers, independent of its spelling: the one system at its path, or,
-- without a path, all systems behind its host and port. Case, scheme, user, default port and trailing slashes make no
-- difference. Names are not resolved, so a name and its IP address are two addresses.
CREATE OR REPLACE FUNCTION farrier.bmc_span_of(address text) RETURNS farrier.bmc_span
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path = farrier, pg_temp AS $$
DECLARE
    bare text := regexp_replace(regexp_replace(address, '[?#].*$', ''), '^[A-Za-z][A-Za-z0-9+.-]*://', '');
    authority text := lower(regexp_replace(substring(bare FROM '^[^/]*'), '^.*@', ''));
    path text := rtrim(substring(bare FROM '/.*$'), '/');
    parts text[];
    host text;
    place text;
BEGIN
    IF authority ~ '^[^][]*:[^][]*:' THEN authority := '[' || authority || ']'; END IF;  -- IPv6, without brackets
    parts := regexp_match(authority, '^(.*?)(?::([0-9]*))?$');
    host := rtrim(parts[1], '.');
    IF host ~ '^\[.*\]$' THEN
        BEGIN
            host := regexp_replace(host(btrim(host, '[]')::inet), '^::ffff:(?=[0-9]+\.)', '');
        EXCEPTION WHEN invalid_text_representation THEN
            NULL;  -- not a valid address; equal only to itself
        END;
    END IF;
    place := host || ':' || coalesce(nullif(ltrim(parts[2], '0'), ''), '443');
    IF coalesce(path, '') = '' THEN
        RETURN bmc_span(place || '/', place || '0', '[)');  -- in collation C, 0 is the character after /
    END IF;
    RETURN bmc_span(place || path, place || path, '[]');
END $$;

-- Returns the host and port of a BMC's address, in the form of bmc_span_of; null for null.
CREATE OR REPLACE FUNCTION farrier.bmc_endpoint_of(address text) RETURNS text
    LANGUAGE sql IMMUTABLE STRICT RETURN split_part(lower(farrier.bmc_span_of(address)), '/', 1);

-- Returns the name of another node whose BMC address overlaps this address (bmc_span_of); null if there is none.
CREATE OR REPLACE FUNCTION farrier.bmc_holder(address text, except_node bigint) RETURNS text
    LANGUAGE sql STABLE SET search_path = farrier, pg_temp
    RETURN (SELECT min(n.name) FROM farrier.node_bmcs b JOIN farrier.nodes n ON n.id = b.node_id
             WHERE b.span && farrier.bmc_span_of(address) AND b.node_id IS DISTINCT FROM except_node);

-- Returns the logins of other nodes at this BMC address that may have failed, as JSON; null if there are none.
CREATE OR REPLACE FUNCTION farrier.bmc_logins_at(address text, except_node bigint) RETURNS jsonb
    LANGUAGE sql STABLE
    RETURN (SELECT jsonb_agg(jsonb_build_object('at', l.at, 'open', l.open)) FROM farrier.bmc_logins l
             WHERE l.endpoint = farrier.bmc_endpoint_of(address) AND l.node_id <> except_node);

-- Records in node_bmcs which BMC a node claims by its address; a node without an address claims none. The constraint node_bmcs_one
-- refuses an address that overlaps another node's. Called by follow_node.
CREATE OR REPLACE FUNCTION farrier.claim_bmc(node bigint, address text) RETURNS void
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
BEGIN
    IF address IS NULL THEN
        DELETE FROM node_bmcs b WHERE b.node_id = node;
    ELSE
        INSERT INTO node_bmcs AS b VALUES (node, bmc_span_of(address)) ON CONFLICT (node_id) DO UPDATE SET span = excluded.span;
    END IF;
END $$;

-- Records in node_identities the identities that a node has read from its BMC. When a holder gives up an identity, the first other
-- node that recorded the same machine becomes its holder. unique_violation, with the other node's name, for a machine that another
-- node holds. Called by follow_node.
CREATE OR REPLACE FUNCTION farrier.claim_identity(node bigint, called text, bmc jsonb) RETURNS void
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
DECLARE
    freed node_identities;
    other record;
BEGIN
    FOR freed IN
        DELETE FROM node_identities i
         WHERE i.node_id = node AND (i.kind, i.value) NOT IN (SELECT k.kind, k.value FROM identity_keys_of_bmc(bmc) k)
        RETURNING i.* LOOP
        UPDATE node_identities h SET holds = true
         WHERE freed.holds AND h.kind = freed.kind AND h.value = freed.value
           AND h.node_id = (SELECT min(i.node_id) FROM node_identities i WHERE i.kind = freed.kind AND i.value = freed.value AND NOT i.holds);
    END LOOP;
    INSERT INTO node_identities (node_id, kind, value, holds)
    SELECT node, k.kind, k.value, true FROM identity_keys_of_bmc(bmc) k
     WHERE NOT EXISTS (SELECT FROM node_identities i WHERE i.node_id = node AND i.kind = k.kind AND i.value = k.value)
     ORDER BY k.kind, k.value;
EXCEPTION WHEN unique_violation THEN
    SELECT h.* INTO other FROM identity_holder(bmc ->> 'serial', bmc ->> 'uuid', bmc ->> 'manufacturer', bmc -> 'macs', node) h;
    RAISE EXCEPTION 'the machine of node % already belongs to node %: it has the same %', called, other.name, other.kind
        USING ERRCODE = 'unique_violation', CONSTRAINT = 'node_identities_one',
              HINT = 'Delete one of the two, or remove its BMC details with clear_bmc.';
END $$;

-- Returns the details of a node that are columns of its row.
CREATE OR REPLACE FUNCTION farrier.columns_of(node farrier.nodes)
    RETURNS TABLE (site text, model text, rack text, labels jsonb, maas_id text, agentless boolean, auto_manage boolean)
    LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT node.site, node.model, node.rack, node.labels, node.maas_id, node.agentless, node.auto_manage;
END;

-- Derives the identities of all nodes again: among nodes with the same machine and no holder yet, the first becomes the holder, and
-- the others are reported as duplicates. Called by a migration that changes identity_placeholders. May be repeated.
CREATE OR REPLACE FUNCTION farrier.derive_identities() RETURNS void
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
BEGIN
    LOCK TABLE node_identities IN SHARE ROW EXCLUSIVE MODE;
    DELETE FROM node_identities i USING nodes n
     WHERE n.id = i.node_id AND (i.kind, i.value) NOT IN (SELECT k.kind, k.value FROM identity_keys_of_bmc(n.bmc) k);
    INSERT INTO node_identities (node_id, kind, value, holds)
    SELECT n.id, k.kind, k.value, false FROM nodes n CROSS JOIN LATERAL identity_keys_of_bmc(n.bmc) k WHERE n.status <> 'deleted'
        ON CONFLICT DO NOTHING;
    UPDATE node_identities i SET holds = true
      FROM (SELECT u.kind, u.value, min(u.node_id) AS node_id FROM node_identities u GROUP BY u.kind, u.value HAVING NOT bool_or(u.holds)) first
     WHERE (i.kind, i.value, i.node_id) = (first.kind, first.value, first.node_id);
END $$;

-- Returns the details of a node, which intent `set` may change, as history records them.
CREATE OR REPLACE FUNCTION farrier.details_of(node farrier.nodes) RETURNS jsonb
    LANGUAGE sql STABLE SET search_path = farrier, pg_temp
    RETURN (SELECT to_jsonb(c) FROM farrier.columns_of(node) c) || jsonb_build_object(
        'macs', (SELECT coalesce(jsonb_agg(m.mac ORDER BY m.mac), '[]') FROM farrier.node_macs m WHERE m.node_id = node.id));

-- Returns the id of a node that is not deleted, by its name or id. FR404 if there is none.
CREATE OR REPLACE FUNCTION farrier.find_node(given text) RETURNS bigint
    LANGUAGE plpgsql STABLE SET search_path = farrier, pg_temp AS $$
DECLARE
    found_id bigint;
    found_status text;
BEGIN
    IF given ~ '^[0-9]{1,18}$' THEN
        SELECT id, status INTO found_id, found_status FROM nodes WHERE id = given::bigint;
    ELSE
        SELECT id, status INTO found_id, found_status FROM nodes WHERE name = given AND status <> 'deleted';
    END IF;
    IF found_id IS NULL THEN
        RAISE EXCEPTION 'no node is named % (expected a name or an ID)', coalesce(quote_literal(given), 'null')
            USING ERRCODE = 'FR404', HINT = 'List the nodes to find its name.';
    END IF;
    IF found_status = 'deleted' THEN
        RAISE EXCEPTION 'node % is deleted', given
            USING ERRCODE = 'FR404', HINT = 'Register the node again; it gets a new ID.';
    END IF;
    RETURN found_id;
END $$;

-- Updates the tables that depend on a node's row. OLD is null in an INSERT. AFTER INSERT or UPDATE trigger on nodes.
CREATE OR REPLACE FUNCTION farrier.follow_node() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    lives boolean := NEW.status <> 'deleted';
BEGIN
    IF OLD.bmc_address IS DISTINCT FROM NEW.bmc_address THEN
        PERFORM claim_bmc(NEW.id, NEW.bmc_address);
    END IF;
    IF (OLD.bmc -> 'serial', OLD.bmc -> 'uuid', OLD.bmc -> 'manufacturer', OLD.bmc -> 'macs')
       IS DISTINCT FROM (NEW.bmc -> 'serial', NEW.bmc -> 'uuid', NEW.bmc -> 'manufacturer', NEW.bmc -> 'macs') THEN
        PERFORM claim_identity(NEW.id, NEW.name, NEW.bmc);
    END IF;
    -- The failed logins of a deleted node still count for the next node with the BMC.
    IF lives AND (OLD.bmc -> 'tries', OLD.bmc -> 'trying') IS DISTINCT FROM (NEW.bmc -> 'tries', NEW.bmc -> 'trying') THEN
        PERFORM note_logins(NEW.id, OLD.bmc_endpoint, NEW.bmc_endpoint, OLD.bmc, NEW.bmc);
    END IF;
    IF NOT lives THEN
        PERFORM watch_machine(NEW.id, NEW.site, NULL);
        PERFORM use_networks(NEW.id, '{}', '{}');
        DELETE FROM node_ib_ports p WHERE p.node = NEW.id;
    ELSIF (OLD.maas_id, OLD.site) IS DISTINCT FROM (NEW.maas_id, NEW.site) THEN
        PERFORM watch_machine(NEW.id, NEW.site, NEW.maas_id);
    END IF;
    RETURN NULL;
END $$;

-- Removes data that gives access to the machine of a deleted node or identifies it: MAC addresses, the agent, bootstrap tokens, and
-- texts and parameters that quote them. Deferred trigger on nodes.
CREATE OR REPLACE FUNCTION farrier.forget_keys() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    DELETE FROM node_macs m WHERE m.node_id = NEW.id;
    DELETE FROM node_agents a WHERE a.node_id = NEW.id;
    UPDATE bootstrap_tokens t SET revoked_at = farrier.now() WHERE t.node_id = NEW.id AND t.used_at IS NULL AND t.revoked_at IS NULL;
    -- Failures, reasons and results quote serial numbers and addresses.
    UPDATE intents i SET params = i.params - '{address,credential,macs,labels}'::text[], reason = NULL
     WHERE i.node_id = NEW.id AND (i.params ?| '{address,credential,macs,labels}' OR i.reason IS NOT NULL);
    UPDATE node_onboardings o SET failure_detail = NULL WHERE o.node_id = NEW.id AND o.failure_detail IS NOT NULL;
    UPDATE node_decommissions d SET failure_detail = NULL WHERE d.node_id = NEW.id AND d.failure_detail IS NOT NULL;
    -- Removes the results that agents and workers reported. A task that an agent is just finishing has no visible
    -- result, and this trigger does not wait for it.
    UPDATE node_tasks t SET result = NULL WHERE t.node_id = NEW.id AND t.status IN ('succeeded', 'failed') AND t.result IS NOT NULL;
    RETURN NULL;
END $$;

-- Clears the columns of a deleted node that give access to its machine or identify it; its name and MAAS id stay. It is
-- a trigger so that it also clears a row that an operator marks as deleted with an UPDATE. BEFORE UPDATE trigger on
-- nodes.
CREATE OR REPLACE FUNCTION farrier.forget_machine() RETURNS trigger
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
BEGIN
    NEW.bmc_address := NULL;
    NEW.bmc_credential := NULL;
    NEW.bmc := '{}';
    NEW.labels := '{}';
    RETURN NEW;
END $$;

-- Returns the details that the parameters of intent `set` give; the details that `unset` names are null.
CREATE OR REPLACE FUNCTION farrier.given_details(params jsonb) RETURNS jsonb
    LANGUAGE sql STABLE
    RETURN (params - '{unset, if_version}'::text[])
        || coalesce((SELECT jsonb_object_agg(u, NULL) FROM jsonb_array_elements_text(params -> 'unset') u), '{}');

-- Returns the node, other than except_node, to which a machine that reports these values belongs, and the kind of identity that
-- matches; no row if there is none. A MAC address with which a node was registered counts, too.
CREATE OR REPLACE FUNCTION farrier.identity_holder(serial text, uuid text, manufacturer text, macs jsonb, except_node bigint)
    RETURNS TABLE (name text, kind text)
    LANGUAGE sql STABLE SET search_path = farrier, pg_temp AS $$
    WITH keys AS (SELECT k.* FROM identity_keys(serial, uuid, manufacturer, macs) k), held AS (
        SELECT i.node_id, i.kind FROM keys k JOIN node_identities i USING (kind, value) WHERE i.holds
        UNION ALL
        SELECT m.node_id, 'mac' FROM keys k JOIN node_macs m ON m.mac = k.value::macaddr WHERE k.kind = 'mac'
    )
    SELECT n.name, h.kind FROM held h JOIN nodes n ON n.id = h.node_id
     WHERE h.node_id <> except_node ORDER BY h.kind DESC, h.node_id LIMIT 1;
$$;

-- Returns the identities of a machine that reports these values, each in a canonical form: a serial number in lower case and without
-- blanks at its ends, after the letters and digits of the manufacturer; a UUID in the smaller of the two byte orders of its first
-- three fields, which firmware updates swap. A placeholder (one of identity_placeholders, or one repeated character) is no identity.
-- MAC addresses count only if a BMC reports neither a serial number nor a UUID, because network cards are replaced.
-- farrier.model.identity compares by the same rules.
CREATE OR REPLACE FUNCTION farrier.identity_keys(serial text, uuid text, manufacturer text, macs jsonb) RETURNS TABLE (kind text, value text)
    LANGUAGE plpgsql STABLE SET search_path = farrier, pg_temp AS $$
#variable_conflict use_variable
DECLARE
    fillers text[] := (read_constants()).identity_placeholders;
    number text := lower(btrim(serial, E' \t\r\n'));
    hex text := translate(regexp_replace(lower(btrim(uuid, E' \t\r\n')), '^urn:uuid:', ''), '-{}', '');
    swapped text;
    known boolean := false;
BEGIN
    IF hex ~ '^[0-9a-f]{32}$' THEN
        swapped := substr(hex, 7, 2) || substr(hex, 5, 2) || substr(hex, 3, 2) || substr(hex, 1, 2)
                || substr(hex, 11, 2) || substr(hex, 9, 2) || substr(hex, 15, 2) || substr(hex, 13, 2) || substr(hex, 17);
        IF hex <> repeat(left(hex, 2), 16) AND NOT fillers && ARRAY[hex::uuid::text, swapped::uuid::text] THEN
            known := true;
            RETURN QUERY SELECT 'uuid', least(hex COLLATE "C", swapped COLLATE "C");
        END IF;
    END IF;
    IF number <> repeat(left(number, 1), length(number)) AND number <> ALL (fillers) THEN
        known := true;
        RETURN QUERY SELECT 'serial', regexp_replace(lower(coalesce(manufacturer, '')), '[^[:alnum:]]', '', 'g') || '/' || number;
    END IF;
    IF NOT known THEN
        RETURN QUERY SELECT DISTINCT 'mac', m.mac
                       FROM (SELECT translate(lower(t), ':-. ', '') AS mac FROM jsonb_array_elements_text(macs) t) m
                      WHERE m.mac ~ '^[0-9a-f]{12}$' AND m.mac <> repeat(left(m.mac, 1), 12);
    END IF;
END $$;

-- Returns the identities of the machine that nodes.bmc describes; see identity_keys.
CREATE OR REPLACE FUNCTION farrier.identity_keys_of_bmc(bmc jsonb) RETURNS TABLE (kind text, value text)
    LANGUAGE sql STABLE SET search_path = farrier, pg_temp AS $$
    SELECT k.kind, k.value FROM identity_keys(bmc ->> 'serial', bmc ->> 'uuid', bmc ->> 'manufacturer', bmc -> 'macs') k;
$$;

-- Returns the clocks of nodes that exceed their limit at `at`, and by how much. Elements of the six arrays with the same position
-- are one limit in force, as in farrier.limits; `place` is the first position that has the state of the clock. An index finds the
-- clocks that are older than the shortest limit of their state. The planner inlines the function.
CREATE OR REPLACE FUNCTION farrier.late_clocks(
    kinds text[], states text[], substates text[], scopes text[], names text[], lasts interval[], at timestamptz)
    RETURNS TABLE (place integer, node_id bigint, paused boolean, excess interval) LANGUAGE sql STABLE AS $$
    -- For each state: the shortest limit of any node or workflow there, the limits by model and site, and whether a clock may
    -- stand still there.
    WITH floors AS MATERIALIZED (
        SELECT min(l.place)::integer AS place, l.kind, l.state, l.substate, min(l.lasts) AS lasts, min(l.lasts) FILTER (WHERE l.scope = '') AS usual,
               jsonb_object_agg(l.name, l.lasts) FILTER (WHERE l.scope = 'model') AS models,
               jsonb_object_agg(l.name, l.lasts) FILTER (WHERE l.scope = 'site') AS sites,
               EXISTS (SELECT FROM farrier.clock_stops s WHERE s.kind = l.kind AND s.state = l.state) AS stops
          FROM unnest($1, $2, $3, $4, $5, $6) WITH ORDINALITY AS l (kind, state, substate, scope, name, lasts, place)
         GROUP BY l.kind, l.state, l.substate),
    workflows AS MATERIALIZED (
        SELECT w.kind, w.id, w.node_id, w.status, w.substate, w.entered_at, w.mode_given_at, w.being_cancelled
          FROM farrier.node_workflows w WHERE w.ended_at IS NULL),
    late AS (
        SELECT f.place, n.node_id, n.paused, n.since, n.site, n.model
          FROM floors f CROSS JOIN LATERAL (
               SELECT x.node_id, x.paused, x.since, x.site, x.model FROM farrier.node_states x
                WHERE x.kind = f.kind AND x.state = f.state AND x.since < $7 - f.lasts
                  AND (NOT f.stops OR (SELECT true FROM farrier.still_clocks s WHERE s.node_id = x.node_id AND s.kind = f.kind AND s.state = f.state LIMIT 1) IS NULL)
               OFFSET 0) n
        UNION ALL
        SELECT w.place, w.node_id, n.paused IS NOT NULL AND NOT n.deleting AND NOT w.being_cancelled AS paused, w.since, n.site, n.model
          FROM (SELECT f.place, w.kind, w.id, w.node_id, w.being_cancelled, w.entered_at AS since
                  FROM floors f JOIN workflows w ON w.kind = f.kind AND w.status = f.state AND w.substate = f.substate
                 WHERE w.entered_at < $7 - f.lasts
                   AND (NOT f.stops OR (SELECT true FROM farrier.still_clocks s WHERE s.node_id = w.node_id AND s.kind = f.kind AND s.state = f.state LIMIT 1) IS NULL)
                UNION ALL
                SELECT f.place, w.kind, w.id, w.node_id, w.being_cancelled, w.mode_given_at
                  FROM floors f JOIN workflows w ON w.kind = f.kind AND f.state = 'end_to_end'
                 WHERE w.mode_given_at < $7 - f.lasts) w
          JOIN farrier.nodes n ON n.id = w.node_id AND n.live_workflow_kind = w.kind AND n.live_workflow_id = w.id)
    SELECT c.place, c.node_id, c.paused, c.excess
      FROM (SELECT l.place, l.node_id, l.paused,
                   $7 - l.since - coalesce((f.sites ->> l.site)::interval, (f.models ->> l.model)::interval, f.usual) AS excess
              FROM late l JOIN floors f USING (place) OFFSET 0) c
     WHERE c.excess > '0'
$$;

-- Returns the time within which a BMC may see at most login_cap failed logins.
CREATE OR REPLACE FUNCTION farrier.login_window() RETURNS interval
    LANGUAGE sql STABLE
    RETURN (farrier.read_constants()).login_window;

-- Returns facts about a node for display: the last reports of its agent, its ports, and the addresses and memberships that any owner
-- has allocated for it. Readers have no right on these tables; a view of the agent's reports would be planned with all its clocks.
CREATE OR REPLACE FUNCTION farrier.node_facts(of_node bigint)
    RETURNS TABLE (alerts jsonb, enrolled_at timestamptz, ib_guids text[], addresses jsonb, memberships jsonb)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
    SELECT (SELECT g.health -> 'alerts' FROM node_agents g WHERE g.node_id = of_node),
           (SELECT g.enrolled_at FROM node_agents g WHERE g.node_id = of_node),
           (SELECT p.guids FROM node_ib_ports p WHERE p.node = of_node),
           (SELECT coalesce(jsonb_agg(jsonb_build_object('segment', s.name, 'address', host(a.address), 'owner', a.owner) ORDER BY s.name, a.address), '[]')
              FROM segment_addresses a JOIN network_segments s ON s.id = a.segment WHERE a.node = of_node),
           (SELECT coalesce(jsonb_agg(jsonb_build_object('partition', p.name, 'guid', m.guid, 'state', m.state) ORDER BY p.name, m.guid), '[]')
              FROM ib_members m JOIN ib_partitions p ON p.id = m.partition WHERE m.node = of_node);
$$;

-- Records in bmc_logins the tries of a node at its BMC, and removes rows of any BMC that are older than login_window. Called by
-- follow_node.
CREATE OR REPLACE FUNCTION farrier.note_logins(node bigint, old_endpoint text, new_endpoint text, old_bmc jsonb, new_bmc jsonb) RETURNS void
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
DECLARE
    place text := coalesce(new_endpoint, old_endpoint);
    before jsonb := coalesce(old_bmc -> 'tries', '[]');
    after jsonb := coalesce(new_bmc -> 'tries', '[]');
    past timestamptz := farrier.now() - login_window();
BEGIN
    -- Every node removes old rows of any BMC, because a deleted node removes none. Without SKIP LOCKED, two nodes that
    -- remove each other's rows could deadlock.
    DELETE FROM bmc_logins WHERE ctid = ANY (ARRAY(
        SELECT l.ctid FROM bmc_logins l WHERE l.at <= past LIMIT 100 FOR UPDATE SKIP LOCKED));
    DELETE FROM bmc_logins WHERE ctid = ANY (ARRAY(
        SELECT l.ctid FROM bmc_logins l
         WHERE l.endpoint = place AND l.node_id = node AND l.at NOT IN (SELECT t::timestamptz FROM jsonb_array_elements_text(after) t)
           FOR UPDATE SKIP LOCKED));
    -- Inserts only new tries, because earlier tries may have been made at another BMC.
    INSERT INTO bmc_logins AS l (endpoint, node_id, at, open)
    SELECT place, node, t::timestamptz, true FROM jsonb_array_elements_text(after) t
     WHERE place IS NOT NULL AND NOT before @> to_jsonb(t)
        ON CONFLICT DO NOTHING;
    UPDATE bmc_logins SET open = NOT open WHERE ctid = ANY (ARRAY(
        SELECT l.ctid FROM bmc_logins l
         WHERE l.endpoint IN (place, old_endpoint) AND l.node_id = node
           AND l.open <> coalesce(l.at = (new_bmc ->> 'trying')::timestamptz, false)
           FOR NO KEY UPDATE SKIP LOCKED));
END $$;

-- Returns the runs whose new login could exceed login_cap within login_window at its BMC; these runs are decided again, with the
-- logins that other nodes have made there meanwhile. Locks the BMCs (lock_keys, purpose bmc_login): commits that count the logins of
-- one BMC take turns, and each reads the logins of the previous one. A commit that waits here holds only the rows of its own runs,
-- for which no other commit waits, and all commits lock in one order, so they cannot deadlock. Called by write_nodes.
CREATE OR REPLACE FUNCTION farrier.over_login_cap(logins jsonb) RETURNS bigint[]
    LANGUAGE plpgsql AS $$
DECLARE
    places text[];
    cap    integer := (farrier.read_constants()).login_cap;
    recent timestamptz := farrier.now() - farrier.login_window();
BEGIN
    places := ARRAY(SELECT DISTINCT farrier.bmc_endpoint_of(r.address)
                      FROM jsonb_to_recordset(logins) r (run bigint, address text, trying timestamptz)
                      JOIN farrier.nodes n ON n.id = r.run
                     WHERE r.trying IS DISTINCT FROM (n.bmc ->> 'trying')::timestamptz AND r.address IS NOT NULL);
    IF places = '{}' THEN RETURN '{}'; END IF;
    PERFORM farrier.lock_keys('bmc_login', places);
    -- A statement of its own, so that it reads rows that were committed while the previous statement waited for the
    -- locks.
    RETURN ARRAY(
        WITH asked AS (
            SELECT r.run, farrier.bmc_endpoint_of(r.address) AS endpoint,
                   (SELECT count(*) FROM jsonb_array_elements_text(r.tries) t
                     WHERE t::timestamptz > recent) AS own
              FROM jsonb_to_recordset(logins) r (run bigint, address text, trying timestamptz, tries jsonb)
              JOIN farrier.nodes n ON n.id = r.run
             WHERE r.trying IS DISTINCT FROM (n.bmc ->> 'trying')::timestamptz AND r.address IS NOT NULL
        )
        SELECT a.run FROM (SELECT *, row_number() OVER (PARTITION BY endpoint ORDER BY run) - 1 AS beside FROM asked) a
         WHERE a.own + a.beside
               + (SELECT count(*) FROM farrier.bmc_logins l
                   WHERE l.endpoint = a.endpoint AND l.node_id <> a.run AND l.at > recent) > cap);
END $$;

-- Sets nodes.bmc_endpoint. Every snapshot looks up logins by this column: a lookup through node_bmcs takes twice as long. BEFORE
-- INSERT or UPDATE trigger on nodes.
CREATE OR REPLACE FUNCTION farrier.place_bmc() RETURNS trigger LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
BEGIN
    NEW.bmc_endpoint := bmc_endpoint_of(NEW.bmc_address);
    RETURN NEW;
END $$;

-- Returns the MAC addresses in an array of texts. FR400 for a malformed address.
CREATE OR REPLACE FUNCTION farrier.read_macs(macs jsonb) RETURNS macaddr[]
    LANGUAGE plpgsql STABLE SET search_path = farrier, pg_temp AS $$
BEGIN
    RETURN ARRAY(SELECT jsonb_array_elements_text(macs)::macaddr);
EXCEPTION WHEN data_exception THEN
    RAISE EXCEPTION 'macs: %', left(SQLERRM, 200)
        USING ERRCODE = 'FR400', HINT = 'Expected six bytes in hexadecimal digits, such as 02:00:00:00:00:01.';
END $$;

-- Refuses details that are invalid for every node (FR400): applies the rules of intent `set`, and json_fault to labels.
-- Called by register_node and validate_set.
CREATE OR REPLACE FUNCTION farrier.refuse_details(details jsonb) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = farrier, pg_temp AS $$
DECLARE
    rules jsonb := (SELECT (a.params -> 'fields') - '{unset, if_version}'::text[] FROM kind_actions a WHERE a.kind = 'node' AND a.action = 'set');
    fault text := params_fault(jsonb_build_object('fields', rules), details);
BEGIN
    fault := coalesce(fault, 'labels ' || json_fault(details -> 'labels', 16384));
    IF fault IS NOT NULL THEN RAISE EXCEPTION '%', fault USING ERRCODE = 'FR400'; END IF;
    PERFORM read_macs(details -> 'macs');
END $$;

-- Refuses a BMC address or a MAC address that another node has (unique_violation, with that node's name). Called by
-- register_node.
CREATE OR REPLACE FUNCTION farrier.refuse_shared(address text, macs macaddr[]) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = farrier, pg_temp AS $$
DECLARE
    other text := bmc_holder(address, NULL);
    shared macaddr;
BEGIN
    IF other IS NOT NULL THEN
        RAISE EXCEPTION 'the BMC % already belongs to node %', address, other
            USING ERRCODE = 'unique_violation',
                  HINT = 'For several nodes behind one BMC, add the path of each node''s system: https://bmc/redfish/v1/Systems/2.';
    END IF;
    SELECT m.mac, n.name INTO shared, other FROM node_macs m JOIN nodes n ON n.id = m.node_id WHERE m.mac = ANY (macs) ORDER BY m.mac LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'the MAC address % already belongs to node %', shared, other
            USING ERRCODE = 'unique_violation', HINT = 'Correct the address, or delete the other node first.';
    END IF;
END $$;

-- Registers a node, enqueues it, and returns its id. The onboarding writes to the BMC or to MAAS only after an intent
-- has given it a mode. With bootstrap_token there is no onboarding yet: the node waits for its agent. `details` has
-- values by name, as in intent `set`, and takes precedence over the parameter of the same name. api_version is only
-- checked: all supported versions of the API register alike. FR400 for malformed values, FR406 for the
-- version, unique_violation for a name, MAAS id, BMC, MAC address or token that another node has.
CREATE OR REPLACE FUNCTION farrier.register_node(
    name text, bmc_address text DEFAULT NULL, bmc_credential text DEFAULT NULL, macs text[] DEFAULT '{}',
    labels jsonb DEFAULT '{}', site text DEFAULT NULL, model text DEFAULT NULL, maas_id text DEFAULT NULL,
    agentless boolean DEFAULT false, auto_manage boolean DEFAULT true, bootstrap_token text DEFAULT NULL,
    bootstrap_ttl interval DEFAULT '72 hours', api_version integer DEFAULT NULL, details jsonb DEFAULT '{}') RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    new_id bigint;
    first_status text := CASE WHEN bootstrap_token IS NULL THEN 'enrolling' ELSE 'bootstrap_issued' END;
    first_management text := CASE WHEN bmc_address IS NULL AND bmc_credential IS NULL THEN 'unmanaged' ELSE 'enroll' END;
    onboarding bigint;
    violated text;
    bmc_rules jsonb := (SELECT a.params -> 'fields' FROM kind_actions a WHERE a.kind = 'node' AND a.action = 'set_bmc');
    fault text := coalesce('bmc_address ' || param_fault(bmc_rules -> 'address', to_jsonb(bmc_address)),
                           'bmc_credential ' || param_fault(bmc_rules -> 'credential', to_jsonb(bmc_credential)));
    given jsonb := jsonb_strip_nulls(jsonb_build_object('site', site, 'model', model, 'maas_id', maas_id, 'macs', macs))
        || jsonb_build_object('labels', labels, 'agentless', agentless, 'auto_manage', auto_manage) || coalesce(details, '{}');
    other text;
BEGIN
    PERFORM check_bootstrap_token(bootstrap_token);
    PERFORM check_ttl(bootstrap_ttl);
    PERFORM refuse_version(register_node.api_version);
    IF fault IS NOT NULL THEN RAISE EXCEPTION '%', fault USING ERRCODE = 'FR400'; END IF;
    PERFORM refuse_details(given);
    PERFORM refuse_shared(register_node.bmc_address, read_macs(given -> 'macs'));
    -- The columns are those that the details name.
    EXECUTE (SELECT format('INSERT INTO nodes (name, bmc_address, bmc_credential, status, management, %1$s)
                            SELECT $1, $2, $3, $4, $5, %1$s FROM jsonb_populate_record(NULL::nodes, $6) RETURNING id',
                           string_agg(quote_ident(k), ', ')) FROM jsonb_object_keys(given - 'macs') k)
       INTO new_id USING name, bmc_address, bmc_credential, first_status, first_management, given;
    INSERT INTO node_macs (mac, node_id) SELECT DISTINCT a, new_id FROM unnest(read_macs(given -> 'macs')) a;
    IF bootstrap_token IS NULL THEN
        INSERT INTO node_onboardings (node_id) VALUES (new_id) RETURNING id INTO onboarding;
        UPDATE nodes SET live_workflow_kind = 'onboarding', live_workflow_id = onboarding WHERE id = new_id;
    ELSE
        INSERT INTO bootstrap_tokens (hash, node_id, expires_at) VALUES (digest(bootstrap_token), new_id, farrier.now() + bootstrap_ttl);
    END IF;
    PERFORM record_beginning('node', to_jsonb(n) || jsonb_build_object('onboarding', o.status), 'register_node', 'registered by ' || session_user)
       FROM nodes n LEFT JOIN node_onboardings o ON o.id = onboarding WHERE n.id = new_id;
    PERFORM enqueue('node', new_id);
    RETURN new_id;
EXCEPTION
    WHEN unique_violation OR exclusion_violation THEN
        GET STACKED DIAGNOSTICS violated = CONSTRAINT_NAME;
        -- A concurrent registration took the address; its row is visible now, and the error can name its node.
        IF violated IN ('node_bmcs_one', 'node_macs_pkey') THEN
            PERFORM refuse_shared(register_node.bmc_address, read_macs(given -> 'macs'));
        END IF;
        IF violated = 'nodes_name' THEN
            RAISE EXCEPTION 'node % is already registered', register_node.name
                USING ERRCODE = 'unique_violation', HINT = 'A name is free again once its node is deleted.';
        ELSIF violated = 'nodes_maas' THEN
            SELECT n.name INTO other FROM nodes n
             WHERE n.site IS NOT DISTINCT FROM given ->> 'site' AND n.maas_id = given ->> 'maas_id' AND n.status <> 'deleted';
            RAISE EXCEPTION 'another node of this site has the same MAAS ID: %', coalesce(other, 'it was just registered')
                USING ERRCODE = 'unique_violation', HINT = 'Give each node its own MAAS ID, or delete the other node first.';
        ELSIF violated = 'bootstrap_tokens_pkey' THEN
            RAISE EXCEPTION 'the bootstrap token of % was used before; a token is valid for one node only', register_node.name
                USING ERRCODE = 'unique_violation';
        END IF;
        RAISE;
    WHEN check_violation OR not_null_violation THEN
        GET STACKED DIAGNOSTICS violated = CONSTRAINT_NAME;
        IF violated = 'node_name_form' OR register_node.name IS NULL THEN
            RAISE EXCEPTION 'node name % is not valid; expected at most 253 letters, digits, dots, dashes and underscores, not only digits',
                coalesce(quote_literal(register_node.name), 'null') USING ERRCODE = 'FR400';
        END IF;
        RAISE;
END $$;

-- Returns the names of other nodes that recorded the same machine as this node.
CREATE OR REPLACE FUNCTION farrier.same_machine(of_node bigint) RETURNS text[]
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
    SELECT coalesce(array_agg(DISTINCT n.name ORDER BY n.name), '{}')
      FROM node_identities mine
      JOIN node_identities theirs ON theirs.kind = mine.kind AND theirs.value = mine.value AND theirs.node_id <> mine.node_id
      JOIN nodes n ON n.id = theirs.node_id
     WHERE mine.node_id = of_node;
$$;

-- From topic networks, for the next object.
-- Returns whether a node has a segment or partition to use, an address or a membership.
CREATE OR REPLACE FUNCTION farrier.has_networks(of_node bigint) RETURNS boolean
    LANGUAGE sql STABLE
    RETURN EXISTS (SELECT FROM farrier.node_uses u WHERE u.node = of_node)
        OR EXISTS (SELECT FROM farrier.segment_addresses a WHERE a.node = of_node)
        OR EXISTS (SELECT FROM farrier.ib_members m WHERE m.node = of_node AND m.state <> 'leaving');

-- Returns what stage cleanup_secrets of a decommission still has to remove, as a JSON array of texts; null in any other stage.
CREATE OR REPLACE FUNCTION farrier.secrets_left(of_node bigint, of_decommission bigint) RETURNS jsonb
    LANGUAGE sql STABLE
    RETURN (SELECT coalesce(jsonb_agg(l.what) FILTER (WHERE l.what IS NOT NULL), '[]')
              FROM farrier.node_decommissions d
              LEFT JOIN LATERAL (VALUES
                   ('a bootstrap token', EXISTS (SELECT FROM farrier.bootstrap_tokens t
                                                  WHERE t.node_id = of_node AND t.used_at IS NULL AND t.revoked_at IS NULL)),
                   ('the agent''s key', EXISTS (SELECT FROM farrier.node_agents a WHERE a.node_id = of_node)),
                   ('addresses or memberships', farrier.has_networks(of_node))) l (what, there) ON l.there
             WHERE d.id = of_decommission AND d.stage = 'cleanup_secrets' HAVING count(d.id) > 0);

-- Returns the nodes that a filter selects: `statuses` and `managements`, empty for any; `details`, the selected values by detail;
-- `failed`, only nodes whose workflow failed, or whose BMC or its power cannot be read; tests of labels as (key, value,
-- negated), where a null value stands for any value. The planner inlines it, so that a statement that calls it can use
-- every index of nodes.
CREATE OR REPLACE FUNCTION farrier.selected_nodes(
    statuses text[], managements text[], details jsonb, failed boolean, label_keys text[], label_values text[], label_negations boolean[])
    RETURNS SETOF farrier.nodes LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT n.*
      FROM farrier.nodes n
     WHERE n.status <> 'deleted'
       AND (cardinality($1) = 0 OR n.status = ANY ($1))
       AND (cardinality($2) = 0 OR n.management = ANY ($2))
       AND ($3 -> 'site' IS NULL OR n.site = ANY (farrier.text_array($3 -> 'site')))
       AND ($3 -> 'model' IS NULL OR n.model = ANY (farrier.text_array($3 -> 'model')))
       AND ($3 -> 'rack' IS NULL OR n.rack = ANY (farrier.text_array($3 -> 'rack')))
       AND (NOT $4
            OR n.bmc ->> 'failure' IS NOT NULL OR n.management = 'manageable' AND n.sync_failure IS NOT NULL
            OR (SELECT w.status FROM farrier.node_workflows w WHERE w.kind = n.live_workflow_kind AND w.id = n.live_workflow_id)
               = ANY (ARRAY(SELECT s.status FROM farrier.workflow_statuses s WHERE s.failed)))
       AND (cardinality($5) = 0 OR NOT EXISTS (
            SELECT FROM unnest($5, $6, $7) AS l (key, value, negated)
             WHERE CASE WHEN l.value IS NULL THEN n.labels ? l.key ELSE (n.labels ->> l.key) IS NOT DISTINCT FROM l.value END = l.negated))
$$;

-- Returns why intent `set` cannot be accepted: the node has another version than the intent requires, or another node
-- has one of these values. Returns null if the intent can be accepted.
CREATE OR REPLACE FUNCTION farrier.set_conflict(of_node bigint, params jsonb) RETURNS text
    LANGUAGE plpgsql STABLE SET search_path = farrier, pg_temp AS $$
DECLARE
    addresses macaddr[] := read_macs(params -> 'macs');
    becomes jsonb := (SELECT details_of(n) FROM nodes n WHERE n.id = of_node) || given_details(params);
    found text;
BEGIN
    SELECT format('node %s has version %s, not %s', n.name, n.version, params ->> 'if_version') INTO found
      FROM nodes n WHERE n.id = of_node AND n.version <> (params ->> 'if_version')::bigint;
    IF found IS NOT NULL THEN RETURN found; END IF;
    SELECT format('the MAC address %s already belongs to node %s', m.mac, n.name) INTO found
      FROM node_macs m JOIN nodes n ON n.id = m.node_id
     WHERE m.mac = ANY (addresses) AND m.node_id <> of_node ORDER BY m.mac LIMIT 1;
    IF found IS NOT NULL THEN RETURN found; END IF;
    RETURN (SELECT format('node %s already has MAAS ID %s in site %s', n.name, n.maas_id, coalesce(n.site, '(none)'))
              FROM nodes n
             WHERE n.maas_id = becomes ->> 'maas_id' AND n.site IS NOT DISTINCT FROM becomes ->> 'site' AND n.status <> 'deleted' AND n.id <> of_node
             LIMIT 1);
END $$;

-- Returns the texts of a JSON list. It is immutable, so that the planner knows the values that a filter selects, and
-- estimates how many rows have them.
CREATE OR REPLACE FUNCTION farrier.text_array(list jsonb) RETURNS text[] LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN ARRAY(SELECT jsonb_array_elements_text(list));

-- Enqueues nodes, and skips deleted ones. Called by write_maas_regions.
CREATE OR REPLACE FUNCTION farrier.wake_nodes(ids bigint[]) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
    INSERT INTO wakes (kind, resource) SELECT 'node', n.id FROM nodes n WHERE n.id = ANY (ids) AND n.status <> 'deleted';
$$;

-- Writes section `details` of a commit of nodes: the values of intent `set`, with a row of history for each that changes. A node
-- that gets another MAAS id loses the mark that farrier created its machine. Updates only the columns that the values
-- name. Called by write_nodes.
CREATE OR REPLACE FUNCTION farrier.write_details(details jsonb) RETURNS void
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
DECLARE
    d record;
    was nodes;
    before jsonb;
BEGIN
    FOR d IN SELECT r.*, given_details(r.params) AS given
               FROM jsonb_to_recordset(details) r (run bigint, params jsonb, cause text, reason text) ORDER BY r.run LOOP
        SELECT n.* INTO was FROM nodes n WHERE n.id = d.run;
        before := details_of(was);
        IF d.given - 'macs' <> '{}' THEN
            EXECUTE (SELECT format('UPDATE nodes n SET %s FROM jsonb_populate_record(NULL::nodes, $1) r WHERE n.id = $2',
                                   string_agg(format('%1$I = r.%1$I', k), ', ')) FROM jsonb_object_keys(d.given - 'macs') k)
              USING d.given, d.run;
            UPDATE nodes n SET maas_created = false WHERE n.id = d.run AND n.maas_created AND n.maas_id IS DISTINCT FROM was.maas_id;
        END IF;
        IF d.given ? 'macs' THEN
            DELETE FROM node_macs m WHERE m.node_id = d.run;
            INSERT INTO node_macs (mac, node_id) SELECT DISTINCT a, d.run FROM unnest(read_macs(d.given -> 'macs')) a;
        END IF;
        PERFORM record_moves('node', s.owner, jsonb_build_array(jsonb_build_object(
                    'run', n.id, 'version', was.version, 'layer', 'details.' || after.key, 'from_value', before ->> after.key,
                    'to_value', coalesce(after.value #>> '{}', '(none)'), 'cause', d.cause, 'reason', d.reason, 'source', 'write_details')))
           FROM nodes n CROSS JOIN jsonb_each(details_of(n)) after JOIN shards s ON s.kind = 'node' AND s.shard = shard_of(n.id)
          WHERE n.id = d.run AND after.value IS DISTINCT FROM before -> after.key;
    END LOOP;
END $$;

-- Writes the nodes of a commit and all other results of their runs: workflows, details, tasks, responses to intents, bootstrap tokens
-- and agents. Returns the runs for which it wrote nothing because their snapshots are outdated, each with the delay after which it is
-- due. Locks the nodes in the order of ids. Writes workflows first, because a node's row names its live workflow. Ends
-- tasks before it creates tasks, because a node has at most one live task of a type. Called by
-- write_nodes_and_networks.
CREATE OR REPLACE FUNCTION farrier.write_nodes(changes jsonb) RETURNS TABLE (run bigint, due_in interval)
    LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    fit bigint[] := ARRAY(
        SELECT n.id FROM farrier.nodes n
          JOIN jsonb_to_recordset(changes -> 'runs') c (run bigint, version bigint) ON c.run = n.id AND c.version = n.version
         ORDER BY n.id FOR NO KEY UPDATE OF n);
    overtaken bigint[] := '{}';
BEGIN
    IF changes ? 'ends' THEN
        -- A run whose task has ended meanwhile, or is just being finished, is decided again. Waiting for the agent's COMMIT would
        -- deadlock: its transaction may wait for the node.
        WITH asked AS (
            SELECT c.run, c.task FROM jsonb_to_recordset(changes -> 'ends') c (run bigint, task bigint)
        ), free AS MATERIALIZED (
            SELECT t.id FROM farrier.node_tasks t
             WHERE t.id IN (SELECT a.task FROM asked a) AND t.ended_at IS NULL
             ORDER BY t.id FOR NO KEY UPDATE SKIP LOCKED
        )
        SELECT coalesce(array_agg(DISTINCT a.run), '{}') INTO overtaken
          FROM asked a WHERE NOT EXISTS (SELECT FROM free f WHERE f.id = a.task);
    END IF;
    IF changes ? 'logins' THEN
        overtaken := overtaken || farrier.over_login_cap(changes -> 'logins');
    END IF;
    IF changes ? 'leaving' THEN
        overtaken := overtaken || farrier.held_by_brakes(changes -> 'leaving', ARRAY(SELECT f FROM unnest(fit) f WHERE f <> ALL (overtaken)));
    END IF;
    IF cardinality(fit) < jsonb_array_length(changes -> 'runs') OR overtaken <> '{}' THEN
        RETURN QUERY SELECT c.run, CASE WHEN c.run = ANY (fit) THEN interval '1 second' ELSE interval '0' END
                       FROM jsonb_to_recordset(changes -> 'runs') c (run bigint)
                      WHERE c.run <> ALL (fit) OR c.run = ANY (overtaken);
        changes := farrier.filter_runs(changes, ARRAY(SELECT f FROM unnest(fit) f WHERE f <> ALL (overtaken)));
    END IF;

    -- A commit with any write increments the version, so that a commit whose reply was lost can be settled. Section
    -- `nodes` increments it, too; `writes` is true for the few runs that write something but no row of nodes.
    IF changes @? '$.runs[*] ? (@.writes == true)' THEN
        UPDATE farrier.nodes n SET version = n.version + 1
          FROM jsonb_to_recordset(changes -> 'runs') c (run bigint, writes boolean)
         WHERE n.id = c.run AND c.writes;
    END IF;
    IF changes ? 'nodes' THEN
        IF changes ?| '{new_onboardings,new_decommissions,onboardings,decommissions}' THEN
            PERFORM farrier.write_workflows(changes);
        END IF;
        UPDATE farrier.nodes n
           SET version = n.version + 1,
               status = r.status,
               status_entered_at = CASE WHEN n.status = r.status THEN n.status_entered_at ELSE farrier.now() END,
               management = r.management,
               management_entered_at = CASE WHEN n.management = r.management THEN n.management_entered_at ELSE farrier.now() END,
               bmc_address = r.bmc_address,
               bmc_credential = r.bmc_credential,
               bmc = r.bmc,
               maas_id = r.maas_id,
               maas_created = r.maas_created,
               quarantine = r.quarantine,
               paused = r.paused,
               ever_onboarded = r.ever_onboarded,
               ever_active = r.ever_active,
               not_scrubbed = r.not_scrubbed,
               deleting = r.deleting,
               redeploying = r.redeploying,
               live_workflow_kind = r.live_workflow_kind,
               -- The id is looked up and not taken from the run: a row that write_workflows inserted has its id only
               -- now.
               live_workflow_id = CASE r.live_workflow_kind
                   WHEN 'onboarding' THEN (SELECT o.id FROM farrier.node_onboardings o
                                            WHERE o.node_id = n.id AND o.ended_at IS NULL)
                   WHEN 'decommission' THEN (SELECT d.id FROM farrier.node_decommissions d
                                              WHERE d.node_id = n.id AND d.ended_at IS NULL)
               END
          FROM jsonb_populate_recordset(NULL::farrier.nodes, changes -> 'nodes') r
         WHERE n.id = r.id;
    END IF;
    IF changes ? 'details' THEN
        PERFORM farrier.write_details(changes -> 'details');
    END IF;
    IF changes ? 'new_decommissions' THEN
        PERFORM farrier.inherit_tasks(changes -> 'new_decommissions');
    END IF;
    IF changes ? 'ends' OR changes ? 'tasks' THEN
        PERFORM farrier.write_tasks(changes);
    END IF;
    IF changes ? 'answers' THEN
        PERFORM farrier.answer_intents(changes -> 'answers');
        PERFORM pg_notify('farrier_intent_answered', '');  -- equal notifications of a transaction are sent once
    END IF;
    IF changes ? 'revoked' THEN  -- nodes whose unused bootstrap tokens are revoked
        UPDATE farrier.bootstrap_tokens t SET revoked_at = farrier.now()
          FROM jsonb_to_recordset(changes -> 'revoked') c (run bigint)
         WHERE t.node_id = c.run AND t.used_at IS NULL AND t.revoked_at IS NULL;
    END IF;
    IF changes ? 'tokens' THEN  -- a new token revokes unused tokens; the lifetime of a known token begins again
        UPDATE farrier.bootstrap_tokens t SET revoked_at = farrier.now()
          FROM jsonb_to_recordset(changes -> 'tokens') c (run bigint, digest text)
         WHERE t.node_id = c.run AND t.used_at IS NULL AND t.revoked_at IS NULL AND t.hash <> decode(c.digest, 'hex');
        INSERT INTO farrier.bootstrap_tokens (hash, node_id, expires_at)
        SELECT decode(c.digest, 'hex'), c.run, farrier.now() + make_interval(secs => c.seconds)
          FROM jsonb_to_recordset(changes -> 'tokens') c (run bigint, digest text, seconds double precision)
            ON CONFLICT (hash) DO UPDATE SET expires_at = excluded.expires_at, revoked_at = NULL
             WHERE bootstrap_tokens.used_at IS NULL AND bootstrap_tokens.node_id = excluded.node_id;
    END IF;
    IF changes ? 'forgotten' THEN  -- nodes whose agents are removed, with their keys
        DELETE FROM farrier.node_agents a USING jsonb_to_recordset(changes -> 'forgotten') c (run bigint) WHERE a.node_id = c.run;
    END IF;
END $$;

-- =====================================================================================================================
-- Functions: workflows
-- =====================================================================================================================

-- Checks the pair of a node and its live workflow; see check_pair. Deferred trigger on nodes. Runs as the owner, because before
-- PostgreSQL 18 a deferred trigger runs as the role that commits, which may have no right to read the tables.
CREATE OR REPLACE FUNCTION farrier.check_node_pair() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    PERFORM check_pair(NEW.id, NULL, NULL);
    RETURN NULL;
END $$;

-- Refuses a commit in which a node and its workflows are inconsistent (FR409). The live workflow is the one that the node names, and
-- its status matches the node's (workflow_mapping). A node without a live workflow has a status that needs none. In a
-- commit that ends a workflow, the last status of the workflow (ended_kind and ended_status, null in any other commit)
-- matches the status of the node. Called by deferred triggers, when all rows of the commit are written.
CREATE OR REPLACE FUNCTION farrier.check_pair(node_id bigint, ended_kind text, ended_status text) RETURNS void
    LANGUAGE plpgsql AS $$
DECLARE
    pair record;
BEGIN
    SELECT n.id, n.status, n.live_workflow_kind, n.live_workflow_id, live.* INTO pair
      FROM farrier.nodes n, LATERAL (
           SELECT count(*) AS how_many, min(w.kind) AS kind, min(w.id) AS workflow_id, min(w.status) AS workflow_status
             FROM farrier.node_workflows w WHERE w.node_id = n.id AND w.ended_at IS NULL) live
     WHERE n.id = check_pair.node_id;
    IF pair.how_many > 1 THEN
        RAISE EXCEPTION 'node % has both a live onboarding and a live decommission', pair.id USING ERRCODE = 'FR409';
    END IF;
    IF (pair.live_workflow_kind, pair.live_workflow_id) IS DISTINCT FROM (pair.kind, pair.workflow_id) THEN
        RAISE EXCEPTION 'node % refers to % % as its live workflow, but % % is live', pair.id,
            coalesce(pair.live_workflow_kind, 'none'), pair.live_workflow_id, coalesce(pair.kind, 'none'), pair.workflow_id
            USING ERRCODE = 'FR409';
    END IF;
    IF NOT EXISTS (
        SELECT FROM farrier.workflow_mapping m
         WHERE m.kind = coalesce(pair.kind, 'none') AND m.workflow_status = coalesce(pair.workflow_status, 'none')
           AND m.node_status = pair.status) THEN
        RAISE EXCEPTION 'node % is %, which contradicts %', pair.id, pair.status,
            CASE WHEN pair.kind IS NULL THEN 'no live workflow' ELSE format('its %s that is %s', pair.kind, pair.workflow_status) END
            USING ERRCODE = 'FR409';
    END IF;
    IF ended_kind IS NOT NULL AND NOT EXISTS (
        SELECT FROM farrier.workflow_mapping m WHERE m.kind = ended_kind AND m.workflow_status = ended_status AND m.node_status = pair.status) THEN
        RAISE EXCEPTION 'node % is %, which contradicts its % that ended as %', pair.id, pair.status, ended_kind, ended_status
            USING ERRCODE = 'FR409';
    END IF;
END $$;

-- Checks the pair of a workflow and its node; see check_pair. Deferred trigger on both tables of workflows; the argument is the
-- kind. Runs as the owner; see check_node_pair.
CREATE OR REPLACE FUNCTION farrier.check_workflow_pair() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        PERFORM farrier.check_pair(OLD.node_id, NULL, NULL);
    ELSIF NEW.ended_at IS NOT NULL THEN
        PERFORM farrier.check_pair(NEW.node_id, TG_ARGV[0], NEW.status);
    ELSE
        PERFORM farrier.check_pair(NEW.node_id, NULL, NULL);
    END IF;
    RETURN NULL;
END $$;

-- Returns whether a node of this status may have no live workflow.
CREATE OR REPLACE FUNCTION farrier.may_have_no_workflow(status text) RETURNS boolean
    LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (SELECT FROM farrier.workflow_mapping m WHERE (m.kind, m.workflow_status, m.node_status) = ('none', 'none', status));
END $$;

-- Keeps ended_at, which marks an ended workflow, consistent with its status, whichever statement writes the row. A
-- status that the model lacks leaves ended_at as written. BEFORE INSERT or UPDATE trigger on both tables of workflows.
CREATE OR REPLACE FUNCTION farrier.set_ended_at() RETURNS trigger
    LANGUAGE plpgsql AS $$
BEGIN
    -- OLD is null for a row that is inserted.
    IF OLD.status = NEW.status AND OLD.ended_at IS NOT DISTINCT FROM NEW.ended_at THEN
        RETURN NEW;
    END IF;
    NEW.ended_at := CASE (SELECT s.ended FROM farrier.workflow_statuses s WHERE s.status = NEW.status)
                         WHEN true THEN coalesce(NEW.ended_at, OLD.ended_at, farrier.now())
                         WHEN false THEN NULL
                         ELSE NEW.ended_at END;
    RETURN NEW;
END $$;

-- Writes the workflows of a commit of nodes: sections `new_onboardings`, `new_decommissions`, `onboardings` and `decommissions`.
-- The clocks of status and stage restart only where the value changes. Called by write_nodes.
CREATE OR REPLACE FUNCTION farrier.write_workflows(changes jsonb) RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    IF changes ? 'new_onboardings' THEN
        INSERT INTO farrier.node_onboardings (node_id, mode, status, stage, attempt, next_attempt_at, mode_given_at, options, upstream, skipped)
        SELECT r.node_id, r.mode, r.status, r.stage, r.attempt, r.next_attempt_at, r.mode_given_at, r.options, r.upstream, r.skipped
          FROM jsonb_populate_recordset(NULL::farrier.node_onboardings, changes -> 'new_onboardings') r;
    END IF;
    IF changes ? 'new_decommissions' THEN
        INSERT INTO farrier.node_decommissions (node_id, mode, status, stage, attempt, next_attempt_at, mode_given_at, options, upstream, skipped)
        SELECT r.node_id, r.mode, r.status, r.stage, r.attempt, r.next_attempt_at, r.mode_given_at, r.options, r.upstream, r.skipped
          FROM jsonb_populate_recordset(NULL::farrier.node_decommissions, changes -> 'new_decommissions') r;
    END IF;
    IF changes ? 'onboardings' THEN
        UPDATE farrier.node_onboardings w
           SET mode = r.mode, status = r.status, stage = r.stage, attempt = r.attempt, next_attempt_at = r.next_attempt_at,
               status_entered_at = CASE WHEN w.status = r.status THEN w.status_entered_at ELSE farrier.now() END,
               stage_entered_at = CASE WHEN w.stage IS NOT DISTINCT FROM r.stage THEN w.stage_entered_at ELSE farrier.now() END,
               failure_class = r.failure_class, failure_detail = r.failure_detail, stop_requested = r.stop_requested,
               after_undo = r.after_undo, mode_given_at = r.mode_given_at, options = r.options, upstream = r.upstream, skipped = r.skipped
          FROM jsonb_populate_recordset(NULL::farrier.node_onboardings, changes -> 'onboardings') r
         WHERE w.id = r.id;
    END IF;
    IF changes ? 'decommissions' THEN
        UPDATE farrier.node_decommissions w
           SET mode = r.mode, status = r.status, stage = r.stage, attempt = r.attempt, next_attempt_at = r.next_attempt_at,
               status_entered_at = CASE WHEN w.status = r.status THEN w.status_entered_at ELSE farrier.now() END,
               stage_entered_at = CASE WHEN w.stage IS NOT DISTINCT FROM r.stage THEN w.stage_entered_at ELSE farrier.now() END,
               failure_class = r.failure_class, failure_detail = r.failure_detail, stop_requested = r.stop_requested,
               after_undo = r.after_undo, mode_given_at = r.mode_given_at, options = r.options, upstream = r.upstream, skipped = r.skipped
          FROM jsonb_populate_recordset(NULL::farrier.node_decommissions, changes -> 'decommissions') r
         WHERE w.id = r.id;
    END IF;
END $$;

-- =====================================================================================================================
-- Functions: agents
-- =====================================================================================================================

-- Returns the name by which tasks and history refer to the agent of a node.
CREATE OR REPLACE FUNCTION farrier.agent_of(node_id bigint) RETURNS text
    LANGUAGE sql STABLE SET search_path = farrier, pg_temp
    RETURN (SELECT 'agent of ' || n.name FROM farrier.nodes n WHERE n.id = node_id);

-- Returns the bootstrap token of a secret: prefix fbt_, the 64 digits of the secret, and a checksum of both.
-- farrier.model.bootstrap.token returns the same text. Computes SHA-256 itself because its caller may not call digest.
CREATE OR REPLACE FUNCTION farrier.bootstrap_token(secret text) RETURNS text LANGUAGE sql IMMUTABLE
    RETURN 'fbt_' || secret || left(encode(sha256(convert_to('fbt_' || secret, 'UTF8')), 'hex'), 8);

-- Refuses an agent whose key does not match (FR403). `known` is the digest of the agent's key; null for a node without an agent.
CREATE OR REPLACE FUNCTION farrier.check_agent_key(node text, known bytea, agent_key text) RETURNS void
    LANGUAGE plpgsql IMMUTABLE SET search_path = farrier, pg_temp AS $$
BEGIN
    IF known IS NULL THEN
        RAISE EXCEPTION 'node % has no enrolled agent', node USING ERRCODE = 'FR403', HINT = 'Call farrier.enroll_agent first.';
    ELSIF known IS DISTINCT FROM digest(agent_key) THEN
        RAISE EXCEPTION 'wrong agent key for node %', node USING ERRCODE = 'FR403', HINT = 'The agent must enrol again with a new bootstrap token.';
    END IF;
END $$;

-- Refuses a malformed bootstrap token (FR400) before any token is looked up; accepts null. The error does not repeat the text,
-- which may be a secret.
CREATE OR REPLACE FUNCTION farrier.check_bootstrap_token(token text) RETURNS void
    LANGUAGE plpgsql IMMUTABLE SET search_path = farrier, pg_temp AS $$
BEGIN
    IF token !~ '\A(fbt_)[0-9a-f]{72}\Z' OR token <> bootstrap_token(substr(token, 5, 64)) THEN
        RAISE EXCEPTION 'this is not a bootstrap token: expected fbt_ and 72 hexadecimal digits whose last 8 are their checksum, got % characters',
            char_length(token) USING ERRCODE = 'FR400', HINT = 'The token is truncated, mistyped or from another system. farrier.issue_bootstrap issues a new one.';
    END IF;
END $$;

-- Refuses the lifetime of a bootstrap token unless it is longer than 0 and at most 30 days (FR400).
CREATE OR REPLACE FUNCTION farrier.check_ttl(ttl interval) RETURNS void LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF ttl IS NULL OR ttl <= interval '0' OR ttl > interval '30 days' THEN
        RAISE EXCEPTION 'the lifetime of a token must be longer than 0 and at most 30 days, not %', coalesce(ttl::text, 'null') USING ERRCODE = 'FR400';
    END IF;
END $$;

-- Enrolls the agent of a node: spends the bootstrap token, stores facts, enqueues the node, and returns the node's id and the key
-- for all later calls. The key is returned only here; the database keeps its digest. An agent that enrolls again gets another
-- key, and its earlier health is removed. Locks the token's row, so that only one of two concurrent calls succeeds.
-- FR400 for a malformed token or malformed facts, FR403 for a token that is unknown, used, revoked or expired.
CREATE OR REPLACE FUNCTION farrier.enroll_agent(token text, facts jsonb DEFAULT '{}', OUT node bigint, OUT agent_key text)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    t record;
    fault text := json_fault(facts, 65536);
BEGIN
    PERFORM check_bootstrap_token(token);
    SELECT b.* INTO t FROM bootstrap_tokens b WHERE b.hash = digest(token) FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'unknown bootstrap token' USING ERRCODE = 'FR403', HINT = 'farrier.issue_bootstrap issues a new one.';
    ELSIF t.used_at IS NOT NULL THEN
        RAISE EXCEPTION 'this bootstrap token was used at %', t.used_at USING ERRCODE = 'FR403', HINT = 'A token works once; farrier.issue_bootstrap issues a new one.';
    ELSIF t.revoked_at IS NOT NULL THEN
        RAISE EXCEPTION 'this bootstrap token was revoked at %', t.revoked_at USING ERRCODE = 'FR403', HINT = 'farrier.issue_bootstrap issues a new one.';
    ELSIF t.expires_at <= farrier.now() THEN
        RAISE EXCEPTION 'this bootstrap token expired at %', t.expires_at USING ERRCODE = 'FR403', HINT = 'farrier.issue_bootstrap issues a new one.';
    ELSIF facts IS NULL OR jsonb_typeof(facts) <> 'object' THEN
        RAISE EXCEPTION 'facts must be a JSON object of at most 64 KiB'
            USING ERRCODE = 'FR400', HINT = 'Omit facts, or send an object such as {"kernel": "6.8"}.';
    ELSIF fault IS NOT NULL THEN
        RAISE EXCEPTION 'facts must be a JSON object of at most 64 KiB; this one %', fault
            USING ERRCODE = 'FR400', HINT = 'Send only facts that identify the system, not logs.';
    END IF;
    node := t.node_id;
    agent_key := new_secret();
    UPDATE bootstrap_tokens b SET used_at = farrier.now() WHERE b.hash = t.hash;
    INSERT INTO node_agents AS a (node_id, key_hash, facts) VALUES (t.node_id, digest(agent_key), enroll_agent.facts)
        ON CONFLICT (node_id) DO UPDATE SET key_hash = excluded.key_hash, facts = excluded.facts, enrolled_at = farrier.now(),
            last_heartbeat_at = NULL, health = '{}', ssh_seed_failures = 0;
    PERFORM enqueue('node', t.node_id);
END $$;

-- Returns what is wrong with a health report, as a text for the agent that sent it, or null.
CREATE OR REPLACE FUNCTION farrier.health_fault(health jsonb) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    alert jsonb;
BEGIN
    IF health IS NULL OR jsonb_typeof(health) <> 'object' THEN RETURN 'health must be a JSON object'; END IF;
    IF octet_length(health::text) > 65536 THEN RETURN 'health must be at most 64 KiB'; END IF;
    IF jsonb_typeof(coalesce(health -> 'ok', 'true')) <> 'boolean' THEN RETURN 'health.ok must be true or false'; END IF;
    IF coalesce(health -> 'ssh_seed', '"unknown"') NOT IN ('"ok"', '"failed"', '"unknown"') THEN RETURN 'health.ssh_seed must be ok, failed or unknown'; END IF;
    IF jsonb_typeof(coalesce(health -> 'alerts', '[]')) <> 'array' THEN RETURN 'health.alerts must be an array'; END IF;
    FOR alert IN SELECT jsonb_array_elements(coalesce(health -> 'alerts', '[]')) LOOP
        IF jsonb_typeof(alert) <> 'object' OR jsonb_typeof(alert -> 'id') IS DISTINCT FROM 'string'
           OR jsonb_typeof(coalesce(alert -> 'message', '""')) <> 'string'
           OR jsonb_typeof(coalesce(alert -> 'blocks_scheduling', 'false')) <> 'boolean' THEN
            RETURN 'each alert must be {"id": text, "message": text, "blocks_scheduling": true or false}';
        END IF;
    END LOOP;
    RETURN NULL;
END $$;

-- Records a heartbeat of a node's agent with one UPDATE of one row. Enqueues the node only for a report that may change
-- a decision: the first report, a report with another health, a report after a silence longer than offline_after, and
-- each of the first ssh_seed_limit consecutive reports of a failed SSH seed, because the handler counts these. FR400
-- for a malformed report, FR403 for a wrong key, FR404 for an unknown node.
CREATE OR REPLACE FUNCTION farrier.heartbeat(node text, health jsonb, agent_key text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    target bigint := find_node(node);
    fault text := health_fault(health);
    was record;
    changed boolean;
BEGIN
    IF fault IS NOT NULL THEN RAISE EXCEPTION '%', fault USING ERRCODE = 'FR400'; END IF;
    SELECT a.last_heartbeat_at, a.health, a.key_hash, a.ssh_seed_failures INTO was FROM node_agents a WHERE a.node_id = target FOR UPDATE;
    PERFORM check_agent_key(node, was.key_hash, agent_key);
    -- The stored report passed this check before, so a report that equals it needs no second check.
    changed := was.health IS DISTINCT FROM health;
    IF changed THEN
        fault := json_fault(health, 65536);
        IF fault IS NOT NULL THEN RAISE EXCEPTION 'health %', fault USING ERRCODE = 'FR400'; END IF;
    END IF;
    UPDATE node_agents a
       SET last_heartbeat_at = farrier.now(), health = heartbeat.health,
           ssh_seed_failures = CASE heartbeat.health ->> 'ssh_seed' WHEN 'failed' THEN a.ssh_seed_failures + 1 ELSE 0 END
     WHERE a.node_id = target;
    IF was.last_heartbeat_at IS NULL OR changed
       OR (health ->> 'ssh_seed' = 'failed' AND was.ssh_seed_failures < (read_constants()).ssh_seed_limit)
       OR was.last_heartbeat_at < farrier.now() - (read_settings()).offline_after THEN
        PERFORM enqueue('node', target);
    END IF;
END $$;

-- Returns a new bootstrap token for a node and revokes the node's unused tokens. The token is returned only here; the
-- database keeps its digest. FR400 for an invalid lifetime, FR404 for an unknown node.
CREATE OR REPLACE FUNCTION farrier.issue_bootstrap(node text, ttl interval DEFAULT '72 hours') RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    target bigint := find_node(node);
    token text := bootstrap_token(new_secret());
BEGIN
    PERFORM check_ttl(ttl);
    PERFORM revoke_bootstrap(node);
    INSERT INTO bootstrap_tokens (hash, node_id, expires_at) VALUES (digest(token), target, farrier.now() + ttl);
    RETURN token;
END $$;

-- Checks the key of the calling agent, and returns the id of its node. Task functions call it before they look up a
-- task. FR403 for a wrong key, FR404 for an unknown node.
CREATE OR REPLACE FUNCTION farrier.prove_agent(node text, agent_key text) RETURNS bigint
    LANGUAGE plpgsql STABLE SET search_path = farrier, pg_temp AS $$
DECLARE
    target bigint := find_node(node);
BEGIN
    PERFORM check_agent_key(node, (SELECT a.key_hash FROM node_agents a WHERE a.node_id = target), agent_key);
    RETURN target;
END $$;

-- Revokes the unused bootstrap tokens of a node. May be repeated. FR404 for an unknown node.
CREATE OR REPLACE FUNCTION farrier.revoke_bootstrap(node text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    target bigint := find_node(node);
BEGIN
    UPDATE bootstrap_tokens SET revoked_at = farrier.now() WHERE node_id = target AND used_at IS NULL AND revoked_at IS NULL;
END $$;

-- =====================================================================================================================
-- Functions: tasks
-- =====================================================================================================================

-- Refuses a lease of a task that is not between 1 second and 1 day (FR400).
CREATE OR REPLACE FUNCTION farrier.check_lease(lease interval) RETURNS void LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF lease IS NULL OR lease < interval '1 second' OR lease > interval '1 day' THEN
        RAISE EXCEPTION 'a lease must last 1 second to 1 day, not %', coalesce(lease::text, 'null') USING ERRCODE = 'FR400';
    END IF;
END $$;

-- Refuses a list of task types that is null or too long (FR400). A type that the model does not have is accepted: no task has it.
CREATE OR REPLACE FUNCTION farrier.check_types(types text[]) RETURNS void LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF types IS NULL OR cardinality(types) > 64 OR EXISTS (SELECT FROM unnest(types) t WHERE char_length(t) > 64) THEN
        RAISE EXCEPTION 'expected at most 64 task types of at most 64 characters each'
            USING ERRCODE = 'FR400', HINT = $hint$Name the types, such as '{node.drain,node.uninstall}'.$hint$;
    END IF;
END $$;

-- Claims the oldest queued task of the agent's own node among types, and returns it with its lease; no row if there is none or the
-- node is paused. Called by agents, which authenticate with their key. FR400 for malformed arguments, FR403 for a wrong key, FR404
-- for an unknown node.
CREATE OR REPLACE FUNCTION farrier.claim_task(node text, types text[], agent_key text, lease interval DEFAULT '60 seconds')
    RETURNS TABLE (task bigint, node_id bigint, node_name text, type text, params jsonb, attempt integer, lease_token uuid, lease_until timestamptz)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    target bigint := prove_agent(node, agent_key);
BEGIN
    RETURN QUERY SELECT * FROM take_task(agent_of(target), types, target, NULL, lease);
END $$;

-- Claims the oldest queued task of any node that the grant of the calling login covers among types (null: all that are granted),
-- and returns it with its lease; no row if there is none. Called by workers, which their login identifies. FR400 for malformed
-- arguments, FR403 for a login without a grant or a type that is not granted.
CREATE OR REPLACE FUNCTION farrier.claim_work(types text[] DEFAULT NULL, lease interval DEFAULT '60 seconds')
    RETURNS TABLE (task bigint, node_id bigint, node_name text, type text, params jsonb, attempt integer, lease_token uuid, lease_until timestamptz)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    granted workers := prove_worker();
    wanted text[] := coalesce(types, granted.types);
BEGIN
    IF NOT wanted <@ granted.types THEN
        RAISE EXCEPTION 'login % is granted tasks of types %, but claims %', session_user, array_to_string(granted.types, ', '), left(wanted::text, 200)
            USING ERRCODE = 'FR403', HINT = 'Omit types to claim any granted type.';
    END IF;
    RETURN QUERY SELECT * FROM take_task('worker ' || granted.login, wanted, NULL, granted.site, lease);
END $$;

-- Ends a claimed task with its result and enqueues its node. FR400 for a malformed result, FR410 for a task that is not, or no
-- longer, the claimant's. Called by finish_task and finish_work.
CREATE OR REPLACE FUNCTION farrier.end_task(claimant text, task bigint, lease_token uuid, succeeded boolean, result jsonb) RETURNS void
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
DECLARE
    owner bigint;
    fault text := json_fault(result, 65536);
BEGIN
    IF succeeded IS NULL THEN RAISE EXCEPTION 'succeeded must be true or false' USING ERRCODE = 'FR400'; END IF;
    IF fault IS NOT NULL THEN RAISE EXCEPTION 'the result %', fault USING ERRCODE = 'FR400'; END IF;
    UPDATE node_tasks t SET status = CASE WHEN succeeded THEN 'succeeded' ELSE 'failed' END, result = end_task.result, ended_at = farrier.now()
     WHERE t.id = end_task.task AND t.lease_token = end_task.lease_token AND t.claimed_by = claimant AND t.status = 'dispatched'
    RETURNING t.node_id INTO owner;
    IF NOT FOUND THEN PERFORM refuse_lease(claimant, task); END IF;
    PERFORM enqueue('node', owner);
END $$;

-- Ends a task of a node's agent. May be repeated: after a lost reply the same call changes nothing and succeeds. Checks
-- for a repeated call before it checks the key, because the task itself may have removed the agent. FR403 for a wrong
-- key, FR410 for a task that is not, or no longer, the agent's.
CREATE OR REPLACE FUNCTION farrier.finish_task(node text, task bigint, lease_token uuid, agent_key text, succeeded boolean, result jsonb DEFAULT NULL) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    IF NOT is_ended_so(task, lease_token, succeeded) THEN
        PERFORM end_task(agent_of(prove_agent(node, agent_key)), task, lease_token, succeeded, result);
    END IF;
END $$;

-- Ends a task of a worker. May be repeated: after a lost reply the same call changes nothing and succeeds. FR403 for a login
-- without a grant, FR410 for a task that is not, or no longer, the worker's.
CREATE OR REPLACE FUNCTION farrier.finish_work(task bigint, lease_token uuid, succeeded boolean, result jsonb DEFAULT NULL) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    IF NOT is_ended_so(task, lease_token, succeeded) THEN
        PERFORM end_task('worker ' || (prove_worker()).login, task, lease_token, succeeded, result);
    END IF;
END $$;

-- Lets a login claim tasks of these types, at one site or (null) at all sites. Replaces an earlier grant of the login.
-- The login also needs role farrier_worker, to call the functions. FR400 for an unknown type, FR404 for an unknown
-- login.
CREATE OR REPLACE FUNCTION farrier.grant_worker(login text, types text[], site text DEFAULT NULL) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    known text[] := ARRAY(SELECT t.type FROM task_types t ORDER BY t.type);
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = grant_worker.login) THEN
        RAISE EXCEPTION 'login % does not exist', coalesce(quote_literal(left(login, 80)), 'null')
            USING ERRCODE = 'FR404', HINT = 'Create it first: CREATE ROLE ... LOGIN IN ROLE farrier_worker.';
    END IF;
    IF coalesce(cardinality(types), 0) = 0 OR NOT types <@ known THEN
        RAISE EXCEPTION 'expected one or more task types, got %', coalesce(left(types::text, 200), 'null')
            USING ERRCODE = 'FR400', HINT = 'Known: ' || array_to_string(known, ', ');
    END IF;
    INSERT INTO workers AS w (login, types, site) VALUES (grant_worker.login, grant_worker.types, grant_worker.site)
        ON CONFLICT ON CONSTRAINT workers_pkey
        DO UPDATE SET types = excluded.types, site = excluded.site, granted_at = excluded.granted_at, granted_by = excluded.granted_by;
END $$;

-- Assigns the live tasks of nodes to the decommission that begins in this commit. A node has such tasks only if its
-- previous decommission was lost, and its agent may be at work on them. Skips a task that the agent is just finishing:
-- the agent's transaction waits for this commit. Called by write_nodes.
CREATE OR REPLACE FUNCTION farrier.inherit_tasks(begun jsonb) RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    UPDATE farrier.node_tasks t SET workflow_id = n.live_workflow_id
      FROM farrier.nodes n
     WHERE n.id = t.node_id AND t.id = ANY (ARRAY(
        SELECT o.id FROM farrier.node_tasks o JOIN jsonb_to_recordset(begun) r (node_id bigint) ON r.node_id = o.node_id
         WHERE o.ended_at IS NULL ORDER BY o.id FOR NO KEY UPDATE OF o SKIP LOCKED));
END $$;

-- Returns whether the task ended with this result under this lease token: then an earlier call, whose reply was lost,
-- ended it.
CREATE OR REPLACE FUNCTION farrier.is_ended_so(task bigint, lease_token uuid, succeeded boolean) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = farrier, pg_temp
    RETURN EXISTS (SELECT FROM farrier.node_tasks t WHERE t.id = task AND t.lease_token = is_ended_so.lease_token
                      AND t.status = CASE WHEN succeeded THEN 'succeeded' ELSE 'failed' END);

-- Extends the lease of a claimed task and returns its new end. FR410 for a task that is not, or no longer, the claimant's, who
-- must stop work. Called by renew_task and renew_work.
CREATE OR REPLACE FUNCTION farrier.keep_task(claimant text, task bigint, lease_token uuid, lease interval) RETURNS timestamptz
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
DECLARE
    until timestamptz;
BEGIN
    PERFORM check_lease(lease);
    UPDATE node_tasks t SET lease_until = farrier.now() + keep_task.lease
     WHERE t.id = keep_task.task AND t.lease_token = keep_task.lease_token AND t.claimed_by = claimant AND t.status = 'dispatched'
    RETURNING t.lease_until INTO until;
    IF NOT FOUND THEN PERFORM refuse_lease(claimant, task); END IF;
    RETURN until;
END $$;

-- Returns the grant of the calling login (session_user, independent of SET ROLE). FR403 for a login without a grant.
CREATE OR REPLACE FUNCTION farrier.prove_worker() RETURNS farrier.workers
    LANGUAGE plpgsql STABLE SET search_path = farrier, pg_temp AS $$
DECLARE
    granted workers := (SELECT w FROM workers w WHERE w.login = session_user);
BEGIN
    IF granted.login IS NULL THEN
        RAISE EXCEPTION 'login % has no grant', session_user
            USING ERRCODE = 'FR403', HINT = 'An operator must call farrier.grant_worker with this login and its task types.';
    END IF;
    RETURN granted;
END $$;

-- Raises FR410 for a task that is not, or no longer, the claimant's. The error has the status of the task only if this claimant
-- claimed it.
CREATE OR REPLACE FUNCTION farrier.refuse_lease(claimant text, task bigint) RETURNS void
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
DECLARE
    state text := (SELECT t.status FROM node_tasks t WHERE t.id = refuse_lease.task AND t.claimed_by = claimant);
BEGIN
    RAISE EXCEPTION 'this lease token is not the current one of task % (status %)', task, coalesce(state, 'unknown')
        USING ERRCODE = 'FR410', HINT = 'The task was finished, cancelled or issued again: stop the work and claim a task.';
END $$;

-- Extends the lease of a task of a node's agent and returns its new end. FR403 for a wrong key, FR410 for a task that is not, or
-- no longer, the agent's, which must stop work.
CREATE OR REPLACE FUNCTION farrier.renew_task(node text, task bigint, lease_token uuid, agent_key text, lease interval DEFAULT '60 seconds') RETURNS timestamptz
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    RETURN keep_task(agent_of(prove_agent(node, agent_key)), task, lease_token, lease);
END $$;

-- Extends the lease of a worker's task and returns its new end. FR403 for a login without a grant, FR410 for a task that is not,
-- or no longer, the worker's, which must stop work.
CREATE OR REPLACE FUNCTION farrier.renew_work(task bigint, lease_token uuid, lease interval DEFAULT '60 seconds') RETURNS timestamptz
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    RETURN keep_task('worker ' || (prove_worker()).login, task, lease_token, lease);
END $$;

-- Removes the grant of a login, which can then neither renew nor finish its tasks; they are issued again when their leases end. FR404
-- for a login without a grant.
CREATE OR REPLACE FUNCTION farrier.revoke_worker(login text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    DELETE FROM workers w WHERE w.login = revoke_worker.login;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'login % has no grant', coalesce(quote_literal(left(login, 80)), 'null')
            USING ERRCODE = 'FR404', HINT = 'SELECT login FROM farrier.workers lists the logins with grants.';
    END IF;
END $$;

-- Claims for the claimant the oldest queued task of these types, of one node (null: any) at one site (null: any), and
-- enqueues the task's node. Skips tasks of nodes that are paused, and tasks that another transaction has locked. Called
-- by claim_task and claim_work.
CREATE OR REPLACE FUNCTION farrier.take_task(claimant text, types text[], of_node bigint, of_site text, lease interval)
    RETURNS TABLE (task bigint, node_id bigint, node_name text, type text, params jsonb, attempt integer, lease_token uuid, lease_until timestamptz)
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM check_lease(lease);
    PERFORM check_types(types);
    RETURN QUERY
    WITH next AS (
        SELECT t.id, n.name FROM node_tasks t JOIN nodes n ON n.id = t.node_id
         WHERE t.status = 'queued' AND t.type = ANY (types) AND n.paused IS NULL
           AND (of_node IS NULL OR t.node_id = of_node) AND (of_site IS NULL OR n.site = of_site)
         ORDER BY t.id LIMIT 1 FOR UPDATE OF t SKIP LOCKED),
    taken AS (
        UPDATE node_tasks t
           SET status = 'dispatched', claimed_by = claimant, lease_token = gen_random_uuid(),
               lease_until = farrier.now() + take_task.lease, dispatched_at = farrier.now()
          FROM next WHERE t.id = next.id
        RETURNING t.id, t.node_id, next.name, t.type, t.params, t.attempt, t.lease_token, t.lease_until),
    woken AS (INSERT INTO wakes (kind, resource) SELECT 'node', taken.node_id FROM taken)
    SELECT * FROM taken;
END $$;

-- Writes sections `ends` and `tasks` of a commit of nodes: ends tasks, then creates tasks of the live decommission.
-- Creates no task of a type of which the node has a live task. Looks up that live task first, because the unique index
-- alone would wait for an agent that is just finishing it. Called by write_nodes.
CREATE OR REPLACE FUNCTION farrier.write_tasks(changes jsonb) RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    UPDATE farrier.node_tasks t
       SET status = r.status, result = to_jsonb(r.result), ended_at = farrier.now()
      FROM jsonb_to_recordset(changes -> 'ends') r (task bigint, status text, result text)
     WHERE t.id = r.task AND t.ended_at IS NULL;
    INSERT INTO farrier.node_tasks (node_id, workflow_id, type, status, params, attempt, failures, result, ended_at)
    SELECT n.id, n.live_workflow_id, r.type, coalesce(r.ended, 'queued'), r.params, r.attempt, r.failures,
           to_jsonb(r.result), CASE WHEN r.ended IS NOT NULL THEN farrier.now() END
      FROM jsonb_to_recordset(changes -> 'tasks')
           AS r (run bigint, type text, ended text, params jsonb, attempt integer, failures integer, result text)
      JOIN farrier.nodes n ON n.id = r.run
     WHERE r.ended IS NOT NULL
        OR NOT EXISTS (SELECT FROM farrier.node_tasks t
                        WHERE t.node_id = n.id AND t.type = r.type AND t.ended_at IS NULL)
        ON CONFLICT (node_id, type) WHERE ended_at IS NULL DO NOTHING;
END $$;

-- =====================================================================================================================
-- Functions: intents
-- =====================================================================================================================

-- Records the responses of a commit to intents. Finds each intent by its id. The planner expects almost no pending
-- intents until the next ANALYZE, so a plan with the index of pending intents would read all of them in every commit
-- when there are many. The expression on status keeps the planner from this index. Called by write_nodes.
CREATE OR REPLACE FUNCTION farrier.answer_intents(answers jsonb) RETURNS void
    LANGUAGE plpgsql SET enable_seqscan = off SET enable_nestloop = off AS $$
BEGIN
    UPDATE farrier.intents i
       SET status = r.status, reason = nullif(r.reason, ''), answered_at = farrier.now()
      FROM jsonb_to_recordset(answers) r (intent bigint, status text, reason text)
     WHERE i.id = r.intent AND i.status || '' = 'pending'
       AND i.id = ANY (ARRAY(SELECT (a ->> 'intent')::bigint FROM jsonb_array_elements(answers) a));
END $$;

-- Returns the id of the first intent of a repeated call whose INSERT failed: a concurrent call with the same key may have taken the
-- name, number or prefixes, and may have committed while this call waited for them. Null if no intent has the key; the error of the
-- INSERT is then the answer. FR400 for a key that belongs to an intent with another action or other params, 40001 if the constraint
-- `violated` shows that there is a first intent, which this transaction does not see.
CREATE OR REPLACE FUNCTION farrier.first_intent(of_kind text, called text, of_action text, of_params jsonb, key text, violated text)
    RETURNS bigint LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    first record;
BEGIN
    IF key IS NULL THEN RETURN NULL; END IF;
    SELECT i.id, i.action, i.params INTO first FROM all_intents i
     WHERE i.kind = of_kind AND i.id = intent_by_key(of_kind, called, of_action, key);
    IF first.action <> of_action OR first.params <> of_params THEN
        RAISE EXCEPTION 'idempotency key % belongs to intent %, which requests % %', quote_literal(key), first.id, first.action, first.params
            USING ERRCODE = 'FR400', HINT = 'A key identifies one intent; use a new key for another.';
    END IF;
    IF first.id IS NULL AND violated IN ('intents_key', 'resource_intents_key', 'resource_intents_create_key') THEN
        RAISE EXCEPTION 'the intent with idempotency key % was committed after this transaction began', quote_literal(key)
            USING ERRCODE = '40001', HINT = 'Repeat the transaction.';
    END IF;
    RETURN first.id;
END $$;

-- Returns the INSERT of an intent with this api_version, for the hint of an error.
CREATE OR REPLACE FUNCTION farrier.insert_with_version(intent farrier.intents, api_version integer) RETURNS text
    LANGUAGE sql IMMUTABLE SET search_path = farrier, pg_temp AS $$
    SELECT format('INSERT INTO farrier.intents (%s) VALUES (%s);',
                  string_agg(c.name, ', ' ORDER BY c.place), string_agg(c.written, ', ' ORDER BY c.place))
      FROM (VALUES (1, 'node', quote_literal(intent.node)), (2, 'action', quote_literal(intent.action)),
                   (3, 'params', CASE WHEN intent.params <> '{}' THEN quote_literal(intent.params::text) END),
                   (4, 'idempotency_key', quote_literal(intent.idempotency_key)),
                   (5, 'requested_by', quote_literal(intent.requested_by)),
                   (6, 'api_version', api_version::text)) AS c (place, name, written)
     WHERE c.written IS NOT NULL
$$;

-- Inserts an intent for a node and returns its id. May be repeated with an idempotency key, also after the node was deleted: the same
-- call returns the id of the first intent. FR400 for a key that belongs to an intent with another action or other params; all other
-- errors are those of the INSERT.
CREATE OR REPLACE FUNCTION farrier.intent(node text, action text, params jsonb DEFAULT '{}', idempotency_key text DEFAULT NULL,
                               requested_by text DEFAULT NULL, api_version integer DEFAULT NULL) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    new_id bigint;
    violated text;
BEGIN
    INSERT INTO intents (node, action, params, idempotency_key, requested_by, api_version)
    VALUES (intent.node, intent.action, intent.params, intent.idempotency_key, coalesce(intent.requested_by, session_user),
            intent.api_version)
    RETURNING id INTO new_id;
    RETURN new_id;
EXCEPTION WHEN OTHERS THEN
    GET STACKED DIAGNOSTICS violated = CONSTRAINT_NAME;
    new_id := first_intent('node', intent.node, intent.action, intent.params, intent.idempotency_key, violated);
    IF new_id IS NULL THEN RAISE; END IF;
    RETURN new_id;
END $$;

-- Returns the id of the intent with this idempotency key: any intent of the node or resource that now has this name or id; else the
-- newest intent with the same action and the same name or id, so that a call may be repeated after its node or resource has ended.
-- Null if no intent has this key.
CREATE OR REPLACE FUNCTION farrier.intent_by_key(of_kind text, called text, of_action text, key text) RETURNS bigint
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    wanted kinds := kind_of(of_kind);
    meant bigint := CASE WHEN called ~ '^[0-9]{1,18}$' THEN called::bigint END;
    found_id bigint;
BEGIN
    IF meant IS NULL THEN
        EXECUTE format('SELECT r.id FROM %s r WHERE r.%I = $1 AND %s', wanted.relation, wanted.named, wanted.living) INTO meant USING called;
    END IF;
    SELECT i.id INTO found_id FROM all_intents i WHERE i.kind = of_kind AND i.resource_id = meant AND i.idempotency_key = key;
    IF found_id IS NULL THEN
        SELECT i.id INTO found_id FROM all_intents i
         WHERE i.kind = of_kind AND i.resource = called AND i.idempotency_key = key AND i.action = of_action
         ORDER BY i.id DESC LIMIT 1;
    END IF;
    RETURN found_id;
END $$;

-- Refuses the idempotency key of an earlier intent (unique_violation). Called by the triggers that validate intents with a key.
CREATE OR REPLACE FUNCTION farrier.refuse_repeated(of_kind text, called text, of_action text, key text) RETURNS void
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    first_id bigint := intent_by_key(of_kind, called, of_action, key);
BEGIN
    IF first_id IS NOT NULL THEN
        RAISE EXCEPTION '% % already has an intent with idempotency key %: intent %', replace(of_kind, '_', ' '), called,
            quote_literal(key), first_id
            USING ERRCODE = 'unique_violation', CONSTRAINT = 'intents_key',
                  HINT = 'farrier.intent() and farrier.resource_intent() return the first intent instead of failing.';
    END IF;
END $$;

-- Refuses a version of the intent API that this database does not support (FR406); accepts null.
CREATE OR REPLACE FUNCTION farrier.refuse_version(api_version integer) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = farrier, pg_temp AS $$
DECLARE
    api_min integer := (read_constants()).api_min;
    api_max integer := (read_constants()).api_max;
BEGIN
    IF api_version > api_max THEN
        RAISE EXCEPTION 'api_version % is not supported; this database supports versions % to %', api_version, api_min, api_max
            USING ERRCODE = 'FR406', HINT = format('The client is newer than this database, which supports at most version %s: '
                'upgrade farrier and its schema (farrier db migrate), or use api_version %1$s.', api_max);
    ELSIF api_version < api_min THEN
        RAISE EXCEPTION 'api_version % is not supported; this database supports versions % to %', api_version, api_min, api_max
            USING ERRCODE = 'FR406', HINT = format('The client is older than this database: upgrade it, or use api_version %s.', api_min);
    END IF;
END $$;

-- Refuses an intent that is invalid in every state, and sets the columns that clients do not set. FR400 for an unknown action or
-- malformed parameters, FR404 for an unknown node, FR406 for a version of the API that this database does not support or in which the
-- action does not exist, unique_violation for an idempotency key that is in use. BEFORE INSERT trigger on intents.
CREATE OR REPLACE FUNCTION farrier.validate_intent() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    spec record;
    fault text;
    asked integer := coalesce(NEW.api_version, (read_constants()).api_min);
BEGIN
    PERFORM refuse_version(NEW.api_version);
    SELECT a.since, k.params INTO spec FROM actions a JOIN kind_actions k USING (action) WHERE k.kind = 'node' AND a.action = NEW.action;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'unknown action %', coalesce(quote_literal(NEW.action), 'null')
            USING ERRCODE = 'FR400', HINT = (SELECT 'Known: ' || string_agg(a.action, ', ' ORDER BY a.action) FROM actions a);
    END IF;
    -- This check comes before FR406, whose hint repeats params.
    IF octet_length(NEW.params::text) > 16384 THEN
        RAISE EXCEPTION 'params have % bytes; at most 16384 are allowed', octet_length(NEW.params::text) USING ERRCODE = 'FR400';
    END IF;
    IF char_length(NEW.idempotency_key) NOT BETWEEN 1 AND 255 OR char_length(NEW.requested_by) NOT BETWEEN 1 AND 255 THEN
        RAISE EXCEPTION '% must have 1 to 255 characters, or be null',
            CASE WHEN char_length(NEW.idempotency_key) NOT BETWEEN 1 AND 255 THEN 'idempotency_key' ELSE 'requested_by' END
            USING ERRCODE = 'FR400';
    END IF;
    IF spec.since > asked THEN
        RAISE EXCEPTION 'action % requires api_version % or later; this intent has %', NEW.action, spec.since,
            coalesce(NEW.api_version::text, format('none, which means %s', asked))
            USING ERRCODE = 'FR406', HINT = insert_with_version(NEW, spec.since);
    END IF;
    fault := CASE WHEN NEW.params IS NULL THEN 'params must be a JSON object' ELSE params_fault(spec.params, NEW.params) END;
    IF fault IS NOT NULL THEN
        RAISE EXCEPTION '%: %', NEW.action, fault USING ERRCODE = 'FR400';
    END IF;
    IF NEW.idempotency_key IS NOT NULL THEN
        PERFORM refuse_repeated('node', NEW.node, NEW.action, NEW.idempotency_key);
    END IF;
    NEW.node_id := find_node(NEW.node);
    NEW.status := 'pending';
    NEW.reason := NULL;
    NEW.answered_at := NULL;
    NEW.created_at := farrier.now();
    RETURN NEW;
END $$;

-- Refuses an intent `set` with a value that register_node would refuse (FR400). BEFORE INSERT trigger on intents, after validate,
-- which has checked the rules of the parameters.
CREATE OR REPLACE FUNCTION farrier.validate_set() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    PERFORM refuse_details(NEW.params - '{unset, if_version}'::text[]);
    RETURN NEW;
END $$;

-- Enqueues the nodes of new intents. AFTER INSERT trigger on intents.
CREATE OR REPLACE FUNCTION farrier.wake_for_intents() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    INSERT INTO wakes (kind, resource) SELECT DISTINCT 'node', node_id FROM new_rows;
    RETURN NULL;
END $$;

-- =====================================================================================================================
-- Functions: kinds
-- =====================================================================================================================

-- Returns the id of the living resource with this name; if there is none, of the resource with this id; if there is
-- none, of the newest ended resource with this name; otherwise null. FR400 for an unknown kind, FR409 for a kind whose
-- table was dropped.
CREATE OR REPLACE FUNCTION farrier.any_resource(kind text, given text) RETURNS bigint
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    wanted kinds := kind_of(kind);
    found_id bigint;
BEGIN
    EXECUTE format($q$
        SELECT coalesce((SELECT r.id FROM %1$s r WHERE r.%2$I = $1 AND %3$s),
                        (SELECT r.id FROM %1$s r WHERE r.id = CASE WHEN $1 ~ '^[0-9]{1,18}$' THEN $1::bigint END),
                        (SELECT max(r.id) FROM %1$s r WHERE r.%2$I = $1))
    $q$, wanted.relation, wanted.named, wanted.living) INTO found_id USING given;
    RETURN found_id;
END $$;

-- Makes the ids of a kind's new table begin after the ids that history and intents have for the kind: an earlier,
-- dropped table of the kind may have used them. Called by make_kind.
CREATE OR REPLACE FUNCTION farrier.begin_ids(of_kind text, relation regclass) RETURNS void
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
DECLARE
    known bigint := greatest((SELECT max(i.resource_id) FROM resource_intents i WHERE i.kind = of_kind),
                             (SELECT max(h.id) FROM history h WHERE h.kind = of_kind));
    here bigint;
BEGIN
    EXECUTE format('SELECT max(r.id) FROM %s r', relation) INTO here;
    IF known > coalesce(here, 0) THEN
        EXECUTE format('ALTER TABLE %s ALTER id RESTART WITH %s', relation, known + 1);
    END IF;
END $$;

-- Sets each layer of a new row to its initial state, if the row has no value for the layer and the layer has exactly one initial
-- state. Sets the time of the layer, if the row has none. Raises FR409 for a value that is not an initial state, and if the kind
-- has no states. BEFORE INSERT trigger on the table of every kind; the argument is the kind. If the table stores one layer of
-- the kind in a column of another name, a second argument names the layer and a third the column.
CREATE OR REPLACE FUNCTION farrier.begin_resource() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    given jsonb := to_jsonb(NEW);
    one record;
BEGIN
    FOR one IN SELECT s.layer, coalesce(TG_ARGV[2], s.layer) AS attribute, array_agg(s.state ORDER BY s.state) FILTER (WHERE s.initial) AS first
                 FROM kind_states s
                WHERE s.kind = TG_ARGV[0] AND s.layer = coalesce(TG_ARGV[1], s.layer) AND given ? coalesce(TG_ARGV[2], s.layer)
                GROUP BY s.layer LOOP
        IF given ->> one.attribute IS NULL AND cardinality(one.first) = 1 THEN
            NEW := jsonb_populate_record(NEW, jsonb_build_object(one.attribute, one.first[1]));
        ELSIF (given ->> one.attribute = ANY (one.first)) IS NOT TRUE THEN
            RAISE EXCEPTION 'a new % cannot have the state % in layer %', replace(TG_ARGV[0], '_', ' '), given ->> one.attribute, one.layer
                USING ERRCODE = 'FR409', HINT = format('It begins as %s.', array_to_string(one.first, ' or '));
        END IF;
        IF given ->> (one.attribute || '_entered_at') IS NULL THEN
            NEW := jsonb_populate_record(NEW, jsonb_build_object(one.attribute || '_entered_at', farrier.now()));
        END IF;
    END LOOP;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'kind % has no states yet', TG_ARGV[0]
            USING ERRCODE = 'FR409', HINT = 'Run farrier db migrate for a built-in kind, farrier kind install for another.';
    END IF;
    RETURN NEW;
END $$;

-- Refuses a change of a layer of a resource for which the model has no edge (FR409). Called by the triggers that guard layers.
CREATE OR REPLACE FUNCTION farrier.check_edge(of_kind text, of_layer text, called text, from_value text, to_value text) RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    IF NOT farrier.is_edge(of_kind, of_layer, from_value, to_value) THEN
        RAISE EXCEPTION '% %: the model has no edge % -> % in layer %', replace(of_kind, '_', ' '), called, from_value, to_value, of_layer
            USING ERRCODE = 'FR409', HINT = 'farrier.edges lists every edge; submit an intent to request one.';
    END IF;
END $$;

-- Returns a row for each layer, by its label, and each state that is not terminal: how many resources are in the state,
-- when the first of them entered it, how many exceed their limit, and the limit without overrides by site or model.
-- Elements of the five arrays with the same position are one limit that differs from the kind's: label, state, scope,
-- name, lasts, as in farrier.limits. Counts resources above the longest limit by an index alone; reads sites and models
-- only for resources whose time in the state is between the shortest and the longest limit of the state.
CREATE OR REPLACE FUNCTION farrier.count_resources(kinds text[], states text[], scopes text[], names text[], limits interval[])
    RETURNS TABLE (kind text, state text, n bigint, first timestamptz, above bigint, lasts interval)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    one record;
BEGIN
    FOR one IN SELECT l.kind, l.layer, l.label, k.relation, model_of(k.relation) AS model FROM kinds k JOIN pg_class c ON c.oid = k.relation JOIN kind_layers l USING (kind)
                WHERE k.from_template ORDER BY l.label LOOP
        RETURN QUERY EXECUTE format($q$
            WITH changed AS MATERIALIZED (
                SELECT c.* FROM unnest($2, $3, $8, $4, $5) AS c (kind, state, scope, name, lasts) WHERE c.kind = $1),
            known AS MATERIALIZED (
                SELECT s.state, own.lasts, $6 - own.lasts AS late_before,
                       $6 - CASE WHEN o.least IS NOT NULL THEN least(own.lasts, o.least) END AS first_late,
                       coalesce($6 - greatest(own.lasts, o.most), '-infinity') AS all_late
                  FROM farrier.kind_states s
                 CROSS JOIN LATERAL (
                       SELECT coalesce((SELECT c.lasts FROM changed c WHERE c.state = s.state AND c.scope = ''), s.sla) AS lasts) own
                 CROSS JOIN LATERAL (
                       SELECT min(c.lasts) AS least, CASE WHEN own.lasts IS NOT NULL THEN max(c.lasts) END AS most
                         FROM changed c WHERE c.state = s.state AND c.scope <> '') o
                 WHERE s.kind = $7 AND s.layer = %2$L AND NOT s.terminal),
            counted AS MATERIALIZED (
                SELECT r.%2$I AS state, count(*) AS n, min(r.%3$I) AS first FROM %1$s r WHERE r.ended_at IS NULL GROUP BY r.%2$I),
            otherwise AS MATERIALIZED (
                SELECT k.state, count(*) FILTER (WHERE r.%3$I < $6 - coalesce(s.lasts, m.lasts))
                                - count(*) FILTER (WHERE coalesce(s.lasts, m.lasts) IS NOT NULL AND r.%3$I < k.late_before) AS n
                  FROM known k
                  JOIN %1$s r ON r.%2$I = k.state AND r.ended_at IS NULL
                   AND r.%3$I >= k.all_late AND r.%3$I < k.first_late
                  LEFT JOIN changed s ON s.state = k.state AND s.scope = 'site' AND s.name = r.site
                  LEFT JOIN changed m ON m.state = k.state AND m.scope = 'model' AND m.name = %4$s
                 GROUP BY k.state)
            SELECT $1, state, coalesce(c.n, 0), c.first, coalesce(late.n, 0) + coalesce(o.n, 0), k.lasts
              FROM known k FULL JOIN counted c USING (state) LEFT JOIN otherwise o USING (state)
              LEFT JOIN LATERAL (
                   SELECT count(*) AS n FROM %1$s r
                    WHERE r.ended_at IS NULL AND r.%2$I = k.state AND r.%3$I < k.late_before) late ON c.n > 0
        $q$, one.relation, one.layer, one.layer || '_entered_at', one.model)
        USING one.label, kinds, states, names, limits, farrier.now(), one.kind, scopes;
    END LOOP;
END $$;

-- Returns how many resources of a kind that have not ended are in each state of the layers in the kind's own table. Null
-- counts resources of all kinds.
CREATE OR REPLACE FUNCTION farrier.count_states(of_kind text) RETURNS TABLE (kind text, layer text, state text, n bigint)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    one record;
BEGIN
    FOR one IN SELECT k.kind, l.layer, k.relation, k.living
                 FROM kinds k JOIN pg_class c ON c.oid = k.relation JOIN kind_layers l USING (kind)
                WHERE l.relation IS NULL AND (of_kind IS NULL OR k.kind = of_kind) LOOP
        RETURN QUERY EXECUTE format('SELECT $1, $2, r.%1$I::text, count(*) FROM %2$s r WHERE %3$s GROUP BY r.%1$I',
                                    one.layer, one.relation, one.living) USING one.kind, one.layer;
    END LOOP;
END $$;

-- Creates the resource that an intent requests and returns its id. The parameters are columns of the kind's table; a
-- column without a parameter gets its default. FR400 for a name or a value that a column refuses, unique_violation for
-- a name that is in use. Called by validate_resource_intent.
CREATE OR REPLACE FUNCTION farrier.create_resource(of_kind text, called text, params jsonb) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    relation regclass := relation_of(of_kind);
    columns text := (SELECT string_agg(format('%I', k), ', ' ORDER BY k) FROM jsonb_object_keys(params || '{"name": ""}') k);
    made bigint;
    violated text;
    advice text;
BEGIN
    EXECUTE format('INSERT INTO %1$s (%2$s) SELECT %2$s FROM jsonb_populate_record(NULL::%1$s, $1) RETURNING id', relation, columns)
       INTO made USING params || jsonb_build_object('name', called);
    RETURN made;
EXCEPTION
    WHEN unique_violation THEN
        GET STACKED DIAGNOSTICS violated = CONSTRAINT_NAME;
        IF violated <> name_index(of_kind) THEN RAISE; END IF;
        RAISE EXCEPTION '% % already exists', replace(of_kind, '_', ' '), quote_literal(called)
            USING ERRCODE = 'unique_violation', CONSTRAINT = violated,
                  HINT = 'The name is free again once the resource has ended. Calls of farrier.resource_intent() with an idempotency key can be repeated.';
    WHEN check_violation THEN
        GET STACKED DIAGNOSTICS violated = CONSTRAINT_NAME;
        IF violated NOT IN ('resources_name_check') THEN RAISE; END IF;
        RAISE EXCEPTION 'name % is not valid; expected 1 to 253 letters, digits, dots, dashes and underscores, not only digits', quote_literal(called)
            USING ERRCODE = 'FR400';
    WHEN data_exception THEN  -- a value that the column cannot hold
        GET STACKED DIAGNOSTICS advice = PG_EXCEPTION_HINT;
        RAISE EXCEPTION 'create: %', SQLERRM USING ERRCODE = 'FR400', HINT = advice;
END $$;

-- Returns the SQL expression of `detail` for a row r of a kind's table: the columns that only this kind has and, if the table's
-- schema has a function KIND_detail(bigint) RETURNS jsonb, the result of that function.
CREATE OR REPLACE FUNCTION farrier.detail_of(of_kind text, relation regclass) RETURNS text
    LANGUAGE plpgsql STABLE SET search_path = farrier, pg_temp AS $$
DECLARE
    adds text := (SELECT format('%I.%I', c.relnamespace::regnamespace::text, of_kind || '_detail') FROM pg_class c WHERE c.oid = relation);
BEGIN
    RETURN 'to_jsonb(r) - ''{id,name,site,version,state,state_entered_at,created_at,ended_at,last_error}''::text[]'
           || CASE WHEN to_regprocedure(adds || '(bigint)') IS NULL THEN '' ELSE format(' || coalesce(%s(r.id), ''{}'')', adds) END;
END $$;

-- Enqueues a new resource, and records the first state of each of its layers in history, with the intent and the
-- requester that validate_resource_intent has set. AFTER INSERT trigger on the table of every kind; the argument is the
-- kind.
CREATE OR REPLACE FUNCTION farrier.enqueue_resource() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    PERFORM enqueue(TG_ARGV[0], NEW.id);
    PERFORM record_beginning(TG_ARGV[0], to_jsonb(NEW),
        coalesce('intent ' || nullif(current_setting('farrier.created_for', true), ''), 'created'),
        'created by ' || coalesce(nullif(current_setting('farrier.created_by', true), ''), session_user));
    RETURN NULL;
END $$;

-- Refuses a change of a layer for which the kind has no edge (FR409), and sets the time of any other change. Ends a
-- resource that enters a terminal state: sets ended_at and releases its numbers. BEFORE UPDATE trigger on the table of
-- every kind, for each layer; the arguments are the kind and the layer.
CREATE OR REPLACE FUNCTION farrier.enter_state() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    to_value text := to_jsonb(NEW) ->> TG_ARGV[1];
BEGIN
    PERFORM check_edge(TG_ARGV[0], TG_ARGV[1], NEW.name, to_jsonb(OLD) ->> TG_ARGV[1], to_value);
    NEW := jsonb_populate_record(NEW, jsonb_build_object(TG_ARGV[1] || '_entered_at', farrier.now()));
    IF TG_ARGV[1] = 'state' AND EXISTS (SELECT FROM kind_states s
                                         WHERE s.kind = TG_ARGV[0] AND s.layer = 'state' AND s.state = to_value AND s.terminal) THEN
        NEW.ended_at := farrier.now();
        PERFORM free_numbers(TG_ARGV[0], NEW.id);
    END IF;
    RETURN NEW;
END $$;

-- Returns the id of a resource that has not ended, by its name or id. FR404 if there is none, FR400 for an unknown
-- kind.
CREATE OR REPLACE FUNCTION farrier.find_resource(of_kind text, given text) RETURNS bigint
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    found_id bigint;
    ended timestamptz;
BEGIN
    EXECUTE format(CASE WHEN given ~ '^[0-9]{1,18}$' THEN 'SELECT r.id, r.ended_at FROM %s r WHERE r.id = $1::bigint'
                        ELSE 'SELECT r.id, r.ended_at FROM %s r WHERE r.name = $1 AND r.ended_at IS NULL' END,
                   relation_of(of_kind)) INTO found_id, ended USING given;
    IF found_id IS NULL THEN
        RAISE EXCEPTION 'no % is named % (expected a name or an ID)', replace(of_kind, '_', ' '), coalesce(quote_literal(given), 'null')
            USING ERRCODE = 'FR404', HINT = format('List the resources of kind %s to find its name.', of_kind);
    END IF;
    IF ended IS NOT NULL THEN
        RAISE EXCEPTION '% % has ended', replace(of_kind, '_', ' '), given
            USING ERRCODE = 'FR404', HINT = 'Create the resource again; it gets a new ID.';
    END IF;
    RETURN found_id;
END $$;

-- Removes a kind; FR409 while one of its resources has not ended. Its table, history and intents stay; pending intents are rejected.
-- Its shards, wakes, marks, outcomes and numbers are deleted. Locks the table against all other access until the transaction ends.
-- Also removes a kind whose table was dropped. FR400 for an unknown kind.
CREATE OR REPLACE FUNCTION farrier.forget_kind(of_kind text) RETURNS void
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
DECLARE
    relation regclass := (SELECT k.relation FROM kinds k JOIN pg_class c ON c.oid = k.relation WHERE k.kind = of_kind);
    living record;
    hook name;
BEGIN
    IF NOT EXISTS (SELECT FROM kinds k WHERE k.kind = of_kind AND k.from_template) THEN PERFORM relation_of(of_kind); END IF;
    IF relation IS NOT NULL THEN
        EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', relation);
        EXECUTE format('SELECT count(*) AS n, min(r.name) AS first FROM %s r WHERE r.ended_at IS NULL', relation) INTO living;
        IF living.n > 0 THEN
            RAISE EXCEPTION 'resources of kind % have not ended: % in all, such as %', of_kind, living.n, living.first
                USING ERRCODE = 'FR409', HINT = 'Delete them, wait until the daemon has ended them, then remove the kind.';
        END IF;
        FOR hook IN SELECT t.tgname FROM pg_trigger t
                     WHERE t.tgrelid = relation AND t.tgfoid IN ('begin_resource'::regproc, 'enqueue_resource'::regproc, 'enter_state'::regproc) LOOP
            EXECUTE format('DROP TRIGGER %I ON %s', hook, relation);
        END LOOP;
    END IF;
    PERFORM free_numbers(n.kind, n.id) FROM (SELECT DISTINCT kind, id FROM pool_numbers WHERE kind = of_kind) n;
    DELETE FROM shards WHERE kind = of_kind;
    DELETE FROM wakes WHERE kind = of_kind;
    DELETE FROM marks WHERE kind = of_kind;
    UPDATE resource_intents i SET status = 'rejected', reason = 'its kind was removed', answered_at = farrier.now()
     WHERE i.kind = of_kind AND i.status = 'pending';
    DELETE FROM outcomes WHERE kind = of_kind;
    DELETE FROM edges WHERE kind = of_kind;
    DELETE FROM kind_actions WHERE kind = of_kind;
    DELETE FROM kind_states WHERE kind = of_kind;
    DELETE FROM kind_layers WHERE kind = of_kind;
    DELETE FROM kinds WHERE kind = of_kind;
    DELETE FROM callable WHERE to_regprocedure(function) IS NULL;
END $$;

-- Returns the states of a layer in which a kind has resources that have not ended, and null if a resource lacks the state or the time
-- when it entered the state. Locks the kind's table against changes until the transaction ends, so that the result stays true.
CREATE OR REPLACE FUNCTION farrier.inhabited_states(of_kind text, layer text) RETURNS SETOF text
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
BEGIN
    EXECUTE format('LOCK TABLE %s IN SHARE ROW EXCLUSIVE MODE', relation_of(of_kind));
    RETURN QUERY EXECUTE format('SELECT DISTINCT CASE WHEN r.%3$I IS NOT NULL THEN r.%2$I END AS state FROM %1$s r
                                  WHERE r.ended_at IS NULL OR r.%2$I IS NULL OR r.%3$I IS NULL ORDER BY state',
                                relation_of(of_kind), layer, layer || '_entered_at');
END $$;

-- Returns whether the model has an edge between two values of a layer of a kind.
CREATE OR REPLACE FUNCTION farrier.is_edge(of_kind text, of_layer text, from_value text, to_value text) RETURNS boolean
    LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (SELECT FROM farrier.edges e
                    WHERE e.kind = of_kind AND e.layer = of_layer AND e.from_value = is_edge.from_value AND e.to_value = is_edge.to_value);
END $$;

-- Returns the row of a kind in kinds. FR400 for an unknown kind and, if template is true, for a kind whose table is not like
-- farrier.resources; FR409 for a kind whose table was dropped.
CREATE OR REPLACE FUNCTION farrier.kind_of(of_kind text, template boolean DEFAULT false) RETURNS farrier.kinds
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    found kinds;
BEGIN
    SELECT k.* INTO found FROM kinds k WHERE k.kind = of_kind AND k.from_template >= template;
    IF found.kind IS NULL AND EXISTS (SELECT FROM kinds k WHERE k.kind = of_kind) THEN
        RAISE EXCEPTION 'kind % has its own tables, which this function does not read', of_kind
            USING ERRCODE = 'FR400', HINT = format('farrier %s --help lists the commands of the kind.', replace(of_kind, '_', ' '));
    END IF;
    IF found.kind IS NULL THEN
        RAISE EXCEPTION 'unknown kind %', coalesce(quote_literal(of_kind), 'null')
            USING ERRCODE = 'FR400',
                  HINT = coalesce((SELECT 'Known: ' || string_agg(k.kind, ', ' ORDER BY k.kind) FROM kinds k), 'No kind is installed.');
    END IF;
    IF NOT EXISTS (SELECT FROM pg_class c WHERE c.oid = found.relation) THEN
        RAISE EXCEPTION 'the table of kind % was dropped', of_kind
            USING ERRCODE = 'FR409', HINT = format('Run farrier kind remove %s to remove the kind, or farrier kind install to create its table again.', of_kind);
    END IF;
    RETURN found;
END $$;

-- Returns, for each state of each layer, the resources that exceed their limit in it: at most `most`, those furthest above
-- it. The arrays are limits as in count_resources.
CREATE OR REPLACE FUNCTION farrier.late_resources(kinds text[], states text[], scopes text[], names text[], limits interval[], most integer)
    RETURNS TABLE (kind text, layer text, id bigint, name text, site text, state text, since timestamptz, lasts interval, last_error text)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    one record;
BEGIN
    FOR one IN SELECT l.kind, l.layer, l.label, k.relation, model_of(k.relation) AS model FROM kinds k JOIN pg_class c ON c.oid = k.relation JOIN kind_layers l USING (kind)
                WHERE k.from_template ORDER BY l.label LOOP
        RETURN QUERY EXECUTE format($q$
            WITH changed AS MATERIALIZED (
                SELECT c.* FROM unnest($2, $3, $9, $4, $5) AS c (kind, state, scope, name, lasts) WHERE c.kind = $1),
            known AS MATERIALIZED (
                SELECT s.state, coalesce((SELECT c.lasts FROM changed c WHERE c.state = s.state AND c.scope = ''), s.sla) AS lasts,
                       (SELECT min(c.lasts) FROM changed c WHERE c.state = s.state AND c.scope <> '') AS of_some
                  FROM farrier.kind_states s WHERE s.kind = $8 AND s.layer = %2$L AND NOT s.terminal)
            SELECT $8, %2$L, l.*
              FROM known k CROSS JOIN LATERAL (
                   SELECT r.id, r.name, r.site, r.%2$I, r.%3$I AS since, coalesce(s.lasts, m.lasts, k.lasts) AS lasts, r.last_error
                     FROM %1$s r
                     LEFT JOIN changed s ON s.state = k.state AND s.scope = 'site' AND s.name = r.site
                     LEFT JOIN changed m ON m.state = k.state AND m.scope = 'model' AND m.name = %4$s
                    WHERE r.%2$I = k.state AND r.ended_at IS NULL
                      AND r.%3$I < $7 - least(k.lasts, k.of_some)
                      AND r.%3$I < $7 - coalesce(s.lasts, m.lasts, k.lasts)
                    ORDER BY r.%3$I + coalesce(s.lasts, m.lasts, k.lasts), r.id
                    LIMIT $6) l
        $q$, one.relation, one.layer, one.layer || '_entered_at', one.model)
        USING one.label, kinds, states, names, limits, most, farrier.now(), one.kind, scopes;
    END LOOP;
END $$;

-- Returns the resources of a kind, or of all kinds if of_kind is null, each with its last outcome. With `ended`,
-- includes resources that have ended. FR400 for an unknown kind, FR409 for a kind whose table was dropped.
CREATE OR REPLACE FUNCTION farrier.list_resources(of_kind text, ended boolean DEFAULT false)
    RETURNS TABLE (kind text, id bigint, name text, site text, state text, state_entered_at timestamptz, created_at timestamptz,
                   ended_at timestamptz, last_error text, detail jsonb, outcome jsonb, outcome_at timestamptz)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    one record;
BEGIN
    IF of_kind IS NOT NULL THEN PERFORM relation_of(of_kind); END IF;
    FOR one IN SELECT k.* FROM kinds k JOIN pg_class c ON c.oid = k.relation WHERE k.from_template AND (of_kind IS NULL OR k.kind = of_kind) ORDER BY k.kind LOOP
        RETURN QUERY EXECUTE format(
            'SELECT $1, r.id, r.name, r.site, r.state, r.state_entered_at, r.created_at, r.ended_at, r.last_error,
                    %s,
                    o.outcome, o.at
               FROM %s r
               LEFT JOIN farrier.outcomes o ON o.kind = $1 AND o.id = r.id
              WHERE $2 OR r.ended_at IS NULL
              ORDER BY r.name, r.id', detail_of(one.kind, one.relation), one.relation) USING one.kind, ended;
    END LOOP;
END $$;

-- Returns the snapshots of resources of a kind: the row as JSON, with its pending intents. A kind that needs more data
-- calls this function in its own load statement. Intervals are written as ISO 8601, from which farrier decodes them.
CREATE OR REPLACE FUNCTION farrier.load_resources(of_kind text, ids bigint[]) RETURNS TABLE (id bigint, now timestamptz, snapshot jsonb)
    LANGUAGE plpgsql STABLE SET search_path = farrier, pg_temp SET IntervalStyle = 'iso_8601' AS $$
BEGIN
    RETURN QUERY EXECUTE format(
        'SELECT r.id, farrier.now(), to_jsonb(r) || jsonb_build_object(''requests'', (
             SELECT coalesce(jsonb_agg(jsonb_build_object(''id'', i.id, ''action'', i.action, ''params'', i.params,
                        ''created_at'', i.created_at, ''requested_by'', i.requested_by) ORDER BY i.id), ''[]'')
               FROM farrier.resource_intents i WHERE i.kind = $1 AND i.resource_id = r.id AND i.status = ''pending''))
           FROM %s r WHERE r.id = ANY ($2)', relation_of(of_kind)) USING of_kind, ids;
END $$;

-- Registers a table for a kind. The table must have been created LIKE farrier.resources INCLUDING ALL. Records the
-- kind, and adds the unique index on names, the triggers of every kind, a trigger for each layer, the shards and the
-- rights. May be repeated: it adds only missing parts, so a repeated call does not wait for transactions that use the
-- table. FR400 for a table that lacks columns or defaults of farrier.resources, FR409 for a kind or a table that is in
-- use.
CREATE OR REPLACE FUNCTION farrier.make_kind(kind text, relation regclass) RETURNS void
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
DECLARE
    missing text := (SELECT string_agg(t.attname, ', ' ORDER BY t.attnum) FROM pg_attribute t
                      WHERE t.attrelid = 'farrier.resources'::regclass AND t.attnum > 0 AND NOT t.attisdropped
                        AND NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = relation AND a.attname = t.attname
                                                                     AND a.atttypid = t.atttypid AND NOT a.attisdropped));
    -- DROP SCHEMA farrier CASCADE drops the defaults that call a function of farrier, and leaves the table.
    undefined text := (SELECT string_agg(format('ALTER TABLE %s ALTER %I SET DEFAULT %s', relation, t.attname, pg_get_expr(d.adbin, d.adrelid)),
                                         '; ' ORDER BY t.attnum)
                         FROM pg_attribute t JOIN pg_attrdef d ON d.adrelid = t.attrelid AND d.adnum = t.attnum
                         JOIN pg_attribute a ON a.attrelid = relation AND a.attname = t.attname
                        WHERE t.attrelid = 'farrier.resources'::regclass AND NOT a.atthasdef);
    layers text[] := ARRAY(SELECT l.layer FROM kind_layers l WHERE l.kind = make_kind.kind UNION SELECT 'state' ORDER BY 1);
    other record;
    one record;
BEGIN
    IF missing IS NOT NULL THEN
        RAISE EXCEPTION '% lacks columns: %', relation, missing
            USING ERRCODE = 'FR400', HINT = 'CREATE TABLE ... (LIKE farrier.resources INCLUDING ALL, ...)';
    END IF;
    IF undefined IS NOT NULL THEN
        RAISE EXCEPTION '% lacks defaults of farrier.resources; DROP SCHEMA farrier CASCADE removes them', relation
            USING ERRCODE = 'FR400', HINT = format('Drop the table, or restore its defaults: %s', undefined);
    END IF;
    SELECT k.* INTO other FROM kinds k
     WHERE (k.kind = make_kind.kind) <> (k.relation = make_kind.relation) AND EXISTS (SELECT FROM pg_class c WHERE c.oid = k.relation);
    IF FOUND THEN
        RAISE EXCEPTION 'kind % already has table %', other.kind, other.relation
            USING ERRCODE = 'FR409', HINT = 'A kind has one table, and a table belongs to one kind. farrier kind remove removes a kind.';
    END IF;
    IF NOT EXISTS (SELECT FROM kinds k WHERE k.kind = make_kind.kind AND k.relation = make_kind.relation) THEN
        INSERT INTO kinds AS k (kind, relation, from_template) VALUES (make_kind.kind, make_kind.relation, true)
            ON CONFLICT ON CONSTRAINT kinds_pkey DO UPDATE SET relation = excluded.relation;
        EXECUTE format('ALTER TABLE %s SET (fillfactor = 80)', relation);  -- LIKE does not copy it
        PERFORM begin_ids(make_kind.kind, relation);
    END IF;
    IF NOT EXISTS (SELECT FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
                    WHERE i.indrelid = relation AND c.relname = name_index(kind) AND i.indisunique) THEN
        EXECUTE format('CREATE UNIQUE INDEX %I ON %s (name) WHERE ended_at IS NULL', name_index(kind), relation);
    END IF;
    FOR one IN SELECT w.* FROM (SELECT 'begin_resource' AS name, 'begin_resource' AS calls, 'BEFORE INSERT' AS at, NULL AS layer
                                UNION ALL SELECT 'enqueue_resource', 'enqueue_resource', 'AFTER INSERT', NULL
                                UNION ALL SELECT 'enter_' || l, 'enter_state', 'BEFORE UPDATE', l FROM unnest(layers) l) w
                WHERE NOT EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = relation AND t.tgname = w.name
                                     AND t.tgfoid = to_regproc('farrier.' || w.calls)) LOOP
        EXECUTE format('CREATE TRIGGER %I %s ON %s FOR EACH ROW %s EXECUTE FUNCTION farrier.%I(%s)',
            one.name, one.at, relation, CASE WHEN one.layer IS NOT NULL THEN format('WHEN (OLD.%1$I <> NEW.%1$I)', one.layer) END,
            one.calls, concat_ws(', ', quote_literal(kind), quote_literal(one.layer)));
    END LOOP;
    PERFORM make_shards(kind);
    PERFORM grant_kind_rights(relation);
END $$;

-- Returns the SQL expression for the model of a row r of a kind's table: column model, or null if the table has none.
-- Limits may depend on the model.
CREATE OR REPLACE FUNCTION farrier.model_of(relation regclass) RETURNS text
    LANGUAGE sql STABLE SET search_path = farrier, pg_temp AS $$
    SELECT CASE WHEN EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = relation AND a.attname = 'model' AND NOT a.attisdropped)
                THEN 'r.model::text' ELSE 'NULL::text' END
$$;

-- Returns the name of the unique index on the names of a kind's resources. The name of a kind has at most 40 bytes, so
-- PostgreSQL does not truncate the result.
CREATE OR REPLACE FUNCTION farrier.name_index(of_kind text) RETURNS text
    LANGUAGE sql IMMUTABLE
    RETURN of_kind || '_live_name';

-- Refuses a change of a layer (FR409) for which is_edge is false. AFTER UPDATE trigger on tables whose writers set the time of the
-- change themselves; the arguments are the kind, the layer and its column. The trigger's condition calls is_edge, so that a change
-- along an edge does not call the trigger: converting both rows to JSON would cost more than the update.
CREATE OR REPLACE FUNCTION farrier.refuse_edge() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    after jsonb := to_jsonb(NEW);
BEGIN
    PERFORM farrier.check_edge(TG_ARGV[0], TG_ARGV[1], coalesce(after ->> 'name', after ->> 'node_id'),
                               to_jsonb(OLD) ->> TG_ARGV[2], after ->> TG_ARGV[2]);
    RETURN NULL;
END $$;

-- Keeps farrier.resources empty (FR409): it is the template of the tables of kinds. Trigger function.
CREATE OR REPLACE FUNCTION farrier.refuse_template_row() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'farrier.resources is the template for tables of kinds and has no rows' USING ERRCODE = 'FR409';
END $$;

-- Returns the table of a kind that was created like farrier.resources. FR400 for any other kind, FR409 for a kind whose
-- table was dropped; functions that read all kinds skip such a kind.
CREATE OR REPLACE FUNCTION farrier.relation_of(of_kind text) RETURNS regclass
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
    SELECT k.relation FROM kind_of(of_kind, true) k
$$;

-- Returns the names of these resources, even if they have ended; no rows if there is no such kind or table.
CREATE OR REPLACE FUNCTION farrier.resource_names(kind text, ids bigint[]) RETURNS TABLE (id bigint, name text)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    found kinds;
BEGIN
    SELECT k.* INTO found FROM kinds k JOIN pg_class c ON c.oid = k.relation WHERE k.kind = resource_names.kind;
    IF found.kind IS NOT NULL THEN
        RETURN QUERY EXECUTE format('SELECT r.id, r.%I FROM %s r WHERE r.id = ANY ($1)', found.named, found.relation) USING ids;
    END IF;
END $$;

-- Returns resources of a kind as JSON for display, in the order of name and id: at most `most` resources after the key
-- (after_name, after_id). one_id selects one resource (null: all). Empty arrays select any state and any site. `states`
-- may be states of any layer; each includes its substates. With `ended`, includes resources that have ended. `named`
-- are names or IDs, and `matching` regular expressions of names: a resource fits if any of them does, or if both are
-- empty. See detail_of for `detail`; `layers` has the current state of each layer, with layer `state` first.
CREATE OR REPLACE FUNCTION farrier.show_resources(
    kind text, one_id bigint, states text[], sites text[], ended boolean, after_name text, after_id bigint, most integer,
    named text[] DEFAULT '{}', matching text[] DEFAULT '{}')
    RETURNS SETOF jsonb
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    relation regclass := relation_of(kind);
    is_in text := (SELECT coalesce(string_agg(format('r.%1$I = ANY ($3) OR split_part(r.%1$I, ''/'', 1) = ANY ($3)', l.layer), ' OR '), 'false')
                     FROM kind_layers l WHERE l.kind = show_resources.kind);
BEGIN
    RETURN QUERY EXECUTE format($q$
        SELECT jsonb_build_object(
                   'kind', $1, 'id', r.id, 'name', r.name, 'site', r.site, 'model', to_jsonb(r) -> 'model', 'version', r.version, 'state', r.state,
                   'state_entered_at', r.state_entered_at, 'created_at', r.created_at, 'ended_at', r.ended_at,
                   'last_error', r.last_error,
                   'detail', %2$s, 'layers', s.layers,
                   'outcome', o.outcome, 'outcome_at', o.at, 'step', e.step, 'step_begun_at', e.begun_at,
                   'controller', so.controller, 'swept_at', so.swept_at)
          FROM (SELECT * FROM %1$s r
                 WHERE ($2 IS NULL OR r.id = $2) AND ($5 OR r.ended_at IS NULL)
                   AND (cardinality($3) = 0 OR %3$s)
                   AND (cardinality($4) = 0 OR r.site = ANY ($4))
                   AND (r.name, r.id) > ($6, $7)
                   AND (cardinality($9) = 0 AND cardinality($10) = 0
                        OR r.name = ANY ($9) OR r.id::text = ANY ($9) OR r.name ~ ANY ($10))
                 ORDER BY r.name, r.id LIMIT $8) r
          LEFT JOIN LATERAL (
               SELECT coalesce(jsonb_agg(jsonb_build_object(
                          'layer', l.layer, 'label', l.label, 'state', to_jsonb(r) -> l.layer, 'since', to_jsonb(r) -> (l.layer || '_entered_at'),
                          'default_limit', extract(epoch FROM s.sla), 'why_none', coalesce(s.why_none, ''))
                          ORDER BY l.layer <> 'state', l.layer), '[]') AS layers
                 FROM farrier.kind_layers l
                 LEFT JOIN farrier.kind_states s ON s.kind = l.kind AND s.layer = l.layer AND s.state = to_jsonb(r) ->> l.layer
                WHERE l.kind = $1) s ON true
          LEFT JOIN farrier.outcomes o ON o.kind = $1 AND o.id = r.id
          LEFT JOIN farrier.effects e ON e.kind = $1 AND e.resource = r.id
          LEFT JOIN farrier.shard_owners so ON r.ended_at IS NULL AND so.kind = $1 AND so.shard = farrier.shard_of(r.id)
         ORDER BY r.name, r.id
    $q$, relation, detail_of(kind, relation), is_in) USING kind, one_id, states, sites, ended, after_name, after_id, most, named, matching;
END $$;

-- Writes the runs of a commit. It is the writer of kinds with one table. Returns the runs whose resource no longer has
-- the version in `runs`, and writes nothing for them. Locks the rows in the order of ids. Sections: `kind` [{run,
-- kind}], `runs` [{run, version, writes}], `resources` [{run, columns}], `answers` [{run, request, accepted, reason}],
-- `ended` [{run}]. Rejects the pending intents of a resource that has ended, because no later run decides on them. The
-- writer of a kind with more tables calls it first, and writes nothing for the runs that it returns.
CREATE OR REPLACE FUNCTION farrier.write_resources(changes jsonb) RETURNS TABLE (run bigint, due_in interval)
    LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    of_kind text := changes #>> '{kind,0,kind}';
    relation regclass := farrier.relation_of(of_kind);
    columns text;
    fit bigint[];
BEGIN
    EXECUTE format('SELECT coalesce(array_agg(l.id), ''{}'') FROM (
                        SELECT r.id FROM %s r JOIN jsonb_to_recordset($1) c (run bigint, version bigint)
                            ON c.run = r.id AND c.version = r.version
                         ORDER BY r.id FOR NO KEY UPDATE OF r) l', relation) INTO fit USING changes -> 'runs';
    IF cardinality(fit) < jsonb_array_length(changes -> 'runs') THEN
        RETURN QUERY SELECT c.run, interval '0' FROM jsonb_to_recordset(changes -> 'runs') c (run bigint) WHERE c.run <> ALL (fit);
        changes := farrier.filter_runs(changes, fit);
    END IF;
    EXECUTE format('UPDATE %s r SET version = r.version + 1 FROM jsonb_to_recordset($1) c (run bigint, writes boolean)
                     WHERE r.id = c.run AND c.writes', relation) USING changes -> 'runs';
    columns := (SELECT string_agg(format('%1$I = c.%1$I', k), ', ' ORDER BY k)
                  FROM jsonb_object_keys(changes #> '{resources,0}') k WHERE k <> 'run');
    IF columns IS NOT NULL THEN
        EXECUTE format('UPDATE %1$s r SET version = r.version + 1, %2$s
                          FROM jsonb_array_elements($1) e, jsonb_populate_record(NULL::%1$s, e) c
                         WHERE r.id = (e ->> ''run'')::bigint', relation, columns) USING changes -> 'resources';
    END IF;
    IF changes ? 'answers' THEN
        PERFORM farrier.answer_requests(of_kind, changes -> 'answers');
    END IF;
    IF changes ? 'ended' THEN
        UPDATE farrier.resource_intents i
           SET status = 'rejected', reason = format('this %s has ended', replace(of_kind, '_', ' ')), answered_at = farrier.now()
          FROM jsonb_to_recordset(changes -> 'ended') c (run bigint)
         WHERE i.kind = of_kind AND i.resource_id = c.run AND i.status = 'pending';
    END IF;
END $$;

-- =====================================================================================================================
-- Functions: brakes
-- =====================================================================================================================

-- Returns the time after which farrier tries again to take a node out of service that a brake holds.
CREATE OR REPLACE FUNCTION farrier.brake_retry() RETURNS interval
    LANGUAGE sql STABLE SET search_path = farrier, pg_temp
    RETURN (farrier.read_constants()).brake_retry;

-- Returns when the brake last refused to take this node out of service. Null while the brake is lifted, and after
-- brake_retry, because the node then retries.
CREATE OR REPLACE FUNCTION farrier.braked_at(of_site text, of_node bigint) RETURNS timestamptz
    LANGUAGE sql STABLE SET search_path = farrier, pg_temp AS $$
    SELECT d.at FROM departures d
     WHERE d.site = coalesce(of_site, '') AND d.node = of_node AND d.held AND d.at > farrier.now() - brake_retry()
       AND NOT is_brake_lifted(d.site)
$$;

-- Returns the runs that the brake of the node's site refuses, among the runs that would take an active node out of
-- service. The node of a refused run counts as departed, so nodes that would leave together are counted together. Locks
-- the row of each site in brakes, in the order of sites, until the transaction ends: however many controllers commit at
-- once, no more nodes leave than the brake allows. enable_seqscan is off so that a plan made while departures was empty
-- also finds rows by their keys. Called by write_nodes.
CREATE OR REPLACE FUNCTION farrier.held_by_brakes(leaving jsonb, among bigint[]) RETURNS bigint[]
    LANGUAGE plpgsql SET search_path = farrier, pg_temp SET enable_seqscan = off AS $$
DECLARE
    one    record;
    brake  brakes;
    share  numeric := (read_settings()).brake_share;
    least  integer := (read_settings()).brake_at_least;
    stops  boolean;
    held   bigint[] := '{}';
BEGIN
    FOR one IN
        SELECT coalesce(n.site, '') AS site, array_agg(n.id ORDER BY n.id) AS runs
          FROM jsonb_to_recordset(leaving) c (run bigint) JOIN nodes n ON n.id = c.run AND n.status = 'active'
         WHERE c.run = ANY (among)
         GROUP BY 1 ORDER BY 1
    LOOP
        SELECT * INTO brake FROM brakes b WHERE b.site = one.site FOR UPDATE;
        IF NOT FOUND THEN
            INSERT INTO brakes (site) VALUES (one.site) ON CONFLICT DO NOTHING;
            SELECT * INTO brake FROM brakes b WHERE b.site = one.site FOR UPDATE;
        END IF;
        IF brake.counted_at IS NULL OR brake.counted_at NOT BETWEEN farrier.now() - interval '1 minute' AND farrier.now() THEN
            -- A departure with a later time than farrier.now() counts, too: farrier.now() is when this commit began, and a
            -- commit that began later may have locked the site first.
            DELETE FROM departures d WHERE d.site = one.site AND NOT EXISTS (SELECT FROM departing c WHERE c.site = d.site AND c.node = d.node);
            brake.counted_at := farrier.now();
            brake.in_service := (SELECT count(*) FROM (
                SELECT n.id FROM nodes n WHERE n.status = 'active' AND coalesce(n.site, '') = one.site
                UNION SELECT d.node FROM departures d WHERE d.site = one.site) s);
            brake.departed := (SELECT count(*) FROM departures d WHERE d.site = one.site);
        END IF;
        -- A row that this statement inserts has no xmax; a row that it updates counts already.
        WITH written AS (
            INSERT INTO departures AS d SELECT one.site, run, farrier.now(), false FROM unnest(one.runs) run
                ON CONFLICT (site, node) DO UPDATE SET at = excluded.at RETURNING d.xmax = 0 AS is_new)
        SELECT brake.departed + count(*) FILTER (WHERE w.is_new) INTO brake.departed FROM written w;
        stops := brake.departed > share * brake.in_service AND brake.departed >= least AND NOT is_brake_lifted(one.site);
        IF stops AND NOT EXISTS (SELECT FROM departing d WHERE d.site = one.site AND d.held) THEN
            brake.since := farrier.now();
        END IF;
        UPDATE departures d SET held = stops WHERE d.site = one.site AND d.node = ANY (one.runs) AND d.held <> stops;
        UPDATE brakes b SET in_service = brake.in_service, departed = brake.departed, counted_at = brake.counted_at, since = brake.since
         WHERE b.site = one.site;
        IF stops THEN held := held || one.runs; END IF;
    END LOOP;
    RETURN held;
END $$;

-- Returns whether an operator has lifted the brake of a site and the lift has not expired.
CREATE OR REPLACE FUNCTION farrier.is_brake_lifted(of_site text) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = farrier, pg_temp
    RETURN coalesce((SELECT l.until > farrier.now() FROM farrier.brake_lifts l WHERE l.site = of_site ORDER BY l.id DESC LIMIT 1), false);

-- Lets any number of nodes of a site leave service for the duration `lasts`. Site '' stands for the nodes without a
-- site. A further call replaces the duration; '0' ends the lift. FR400 for malformed arguments, FR409 if the brake is
-- not lifted and holds no node.
CREATE OR REPLACE FUNCTION farrier.lift_brake(site text, reason text, lasts interval DEFAULT '1 hour', requested_by text DEFAULT NULL) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    of_site text := coalesce(lift_brake.site, '');
BEGIN
    IF coalesce(reason, '') = '' OR length(reason) > 500 OR length(requested_by) > 255 THEN
        RAISE EXCEPTION 'the reason for lifting a brake must have 1 to 500 characters, and the name of the operator at most 255' USING ERRCODE = 'FR400';
    ELSIF lasts IS NULL OR lasts < interval '0' OR lasts > interval '24 hours' THEN
        RAISE EXCEPTION 'a brake can be lifted for at most 24 hours, not for %', coalesce(lasts::text, 'null') USING ERRCODE = 'FR400';
    ELSIF NOT is_brake_lifted(of_site) AND NOT EXISTS (SELECT FROM brakes_holding h WHERE h.site = of_site) THEN
        RAISE EXCEPTION 'the brake of site % holds no node', quote_literal(of_site)
            USING ERRCODE = 'FR409', HINT = 'Only a brake that holds nodes can be lifted.';
    END IF;
    INSERT INTO brake_lifts (site, until, reason, requested_by)
    VALUES (of_site, farrier.now() + lasts, lift_brake.reason, coalesce(lift_brake.requested_by, session_user));
END $$;

-- =====================================================================================================================
-- Functions: maas
-- =====================================================================================================================

-- Returns the nodes that these readings affect: nodes whose reading differs from the stored one in a field on which handlers decide
-- (significant_fields); nodes whose workflow gets its first reading since its stage began or since the region was
-- replaced; and nodes for which the reading confirms the machine's state (confirmed_after).
CREATE OR REPLACE FUNCTION farrier.affected_nodes(readings jsonb) RETURNS bigint[]
    LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
    AS $$
DECLARE
    affected bigint[];
    enough interval := farrier.confirmed_after();
BEGIN
    SELECT coalesce(array_agg(c.node), '{}') INTO affected
      FROM jsonb_to_recordset(readings) c (node bigint, system_id text, state text, read_at timestamptz, detail jsonb)
      JOIN farrier.node_observations o ON o.node_id = c.node AND o.source = 'maas' AND o.system_id = c.system_id
      -- Reads at most one row, by the keys of the node and its workflow.
     CROSS JOIN LATERAL (SELECT (SELECT v.began_at FROM farrier.maas_motion v WHERE v.node_id = c.node) AS began_at OFFSET 0) m
      LEFT JOIN farrier.maas_regions r ON r.name = o.site AND r.ended_at IS NULL
     WHERE o.state IS DISTINCT FROM c.state
        OR farrier.significant_fields(o.detail) <> farrier.significant_fields(c.detail)
        OR (m.began_at IS NOT NULL AND ((o.read_at < m.began_at AND c.read_at >= m.began_at)
                                        OR o.read_at < r.since
                                        OR o.detail -> 'last_sync' IS DISTINCT FROM c.detail -> 'last_sync'))
        OR (o.read_at - o.since < enough AND c.read_at - o.since >= enough);
    RETURN affected;
END $$;

-- Returns how long the readings of a machine must show the same state before the state is confirmed.
CREATE OR REPLACE FUNCTION farrier.confirmed_after() RETURNS interval
    LANGUAGE sql STABLE
    RETURN (farrier.read_constants()).confirmed_after;

-- Returns the last reading of a node's machine in MAAS for its snapshot (farrier.model.observation); null without a reading. Readings
-- from before the region's `since` are ignored. `ours` is null while the user of the region's key is unknown.
CREATE OR REPLACE FUNCTION farrier.maas_observation(node_id bigint, system_id text, site text) RETURNS jsonb
    LANGUAGE sql STABLE
    RETURN (SELECT o.detail || jsonb_build_object(
                       'system_id', o.system_id, 'state', o.state, 'since', o.since, 'read_at', o.read_at, 'owner_by_rescue', o.owner_by_rescue,
                       'fresh_at', CASE WHEN o.stale_since IS NULL THEN greatest(o.read_at, r.complete_at) ELSE o.read_at END,
                       'ours', CASE WHEN r.username IS NOT NULL THEN coalesce(o.detail ->> 'owner' = r.username, false) END)
              FROM farrier.node_observations o LEFT JOIN farrier.maas_regions r ON r.name = $3 AND r.ended_at IS NULL
             WHERE o.node_id = $1 AND o.source = 'maas' AND o.system_id = $2
               AND o.read_at >= coalesce(r.since, '-infinity'));

-- Returns the periods in which farrier could not read the region of a site, as JSON [{began_at, ended_at}]; the limits
-- of stages exclude these periods. Covers the last hundred changes of state within a week, which is longer than any
-- stage waits.
CREATE OR REPLACE FUNCTION farrier.region_outages(site text) RETURNS json
    LANGUAGE sql STABLE
    RETURN (SELECT coalesce(json_agg(o), '[]') FROM (
        SELECT r.state_entered_at AS began_at, NULL::timestamptz AS ended_at
          FROM farrier.maas_regions r WHERE r.name = $1 AND r.ended_at IS NULL AND r.state <> 'observing'
         UNION ALL
        (SELECT h.at - make_interval(secs => h.seconds_in_source), h.at
           FROM farrier.maas_regions r
          CROSS JOIN LATERAL (
                SELECT * FROM farrier.history h
                 WHERE h.kind = 'maas_region' AND h.id = r.id AND h.layer = 'state' ORDER BY h.version DESC LIMIT 100) h
          WHERE r.name = $1 AND r.ended_at IS NULL AND h.from_value <> 'observing' AND h.at > farrier.now() - interval '7 days')) o);

-- Records the regions that a controller has configured: [{site, url, motion_seconds, sweep_seconds}], and enqueues
-- them. Leaves other regions unchanged, because another controller may have configured them. If the URL of a region
-- changes, its earlier readings become invalid. Increments versions by two, which no commit does. May be repeated.
-- Locks the regions in the order of ids.
CREATE OR REPLACE FUNCTION farrier.set_sites(sites jsonb) RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM farrier.maas_regions r
     WHERE r.ended_at IS NULL AND r.name IN (SELECT c.site FROM jsonb_to_recordset(sites) c (site text)) ORDER BY r.id FOR NO KEY UPDATE;
    UPDATE farrier.maas_regions r
       SET version = r.version + 2, motion_every = make_interval(secs => c.motion_seconds),
           sweep_every = make_interval(secs => c.sweep_seconds), identified_at = NULL, next_try_at = NULL,
           configured_at = farrier.now(),
           -- Another region has other events, other users, and other machines with the same ids, so earlier readings do not apply.
           since = CASE WHEN r.url = c.url THEN r.since ELSE farrier.now() END,
           url = c.url, cursor = CASE WHEN r.url = c.url THEN r.cursor ELSE '{}' END,
           complete_at = CASE WHEN r.url = c.url THEN r.complete_at END,
           username = CASE WHEN r.url = c.url THEN r.username END
      FROM jsonb_to_recordset(sites) c (site text, url text, motion_seconds double precision, sweep_seconds double precision)
     WHERE r.name = c.site AND r.ended_at IS NULL;
    INSERT INTO farrier.maas_regions (name, site, url, motion_every, sweep_every, configured_at)
    SELECT c.site, c.site, c.url, make_interval(secs => c.motion_seconds), make_interval(secs => c.sweep_seconds), farrier.now()
      FROM jsonb_to_recordset(sites) c (site text, url text, motion_seconds double precision, sweep_seconds double precision)
     ORDER BY c.site
        ON CONFLICT (name) WHERE ended_at IS NULL DO NOTHING;
    PERFORM farrier.enqueue('maas_region', r.id) FROM farrier.maas_regions r
      JOIN jsonb_to_recordset(sites) c (site text) ON c.site = r.name AND r.ended_at IS NULL;
END $$;

-- Returns the fields of an observation on which a node's handler decides.
CREATE OR REPLACE FUNCTION farrier.significant_fields(detail jsonb) RETURNS jsonb
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN detail - '{last_sync,netboot,status_name,status_message,error_description,osystem,distro_series,commissioning_status_name,testing_status_name}'::text[];

-- Gives a node its row in node_observations, without a reading, for its first or another machine; a node without a machine has no
-- row. Called by follow_node.
CREATE OR REPLACE FUNCTION farrier.watch_machine(node bigint, of_site text, machine text) RETURNS void
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
BEGIN
    IF machine IS NULL OR of_site IS NULL THEN
        DELETE FROM node_observations o WHERE o.node_id = node AND o.source = 'maas';
    ELSE
        INSERT INTO node_observations AS o (node_id, source, site, system_id, stale_since)
        VALUES (node, 'maas', of_site, machine, farrier.now())
            ON CONFLICT (node_id, source) DO UPDATE
               SET site = excluded.site, system_id = excluded.system_id, stale_since = excluded.stale_since,
                   state = NULL, since = NULL, read_at = NULL, lost_at = NULL, detail = '{}', owner_by_rescue = false;
    END IF;
END $$;

-- Writes the regions of a commit and the readings of their machines; the writer of kind maas_region. Enqueues the nodes that the
-- readings affect. Sections besides those of write_resources: `readings`, `unknown` [{run, at}] for regions that may have lost
-- events, `named` [{run, system_id, at, status_changed}] for machines that events name. Writes events before readings,
-- because farrier reads machines after it reads events.
CREATE OR REPLACE FUNCTION farrier.write_maas_regions(changes jsonb) RETURNS TABLE (run bigint, due_in interval)
    LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    unwritten bigint[] := ARRAY(SELECT w.run FROM farrier.write_resources(changes) w);
BEGIN
    IF cardinality(unwritten) > 0 THEN
        RETURN QUERY SELECT u, interval '0' FROM unnest(unwritten) u;
        changes := farrier.runs_without(changes, unwritten);
    END IF;
    IF changes ? 'readings' THEN
        PERFORM farrier.wake_nodes(farrier.affected_nodes(changes -> 'readings'));
    END IF;
    IF changes ? 'unknown' THEN
        UPDATE farrier.node_observations o SET stale_since = c.at
          FROM jsonb_to_recordset(changes -> 'unknown') c (run bigint, at timestamptz) JOIN farrier.maas_regions r ON r.id = c.run
         WHERE o.site = r.site AND o.stale_since IS NULL;
    END IF;
    IF changes ? 'named' THEN
        UPDATE farrier.node_observations o SET stale_since = c.at
          FROM jsonb_to_recordset(changes -> 'named') c (run bigint, system_id text, at timestamptz, status_changed boolean)
          JOIN farrier.maas_regions r ON r.id = c.run
         WHERE o.site = r.site AND o.system_id = c.system_id
           AND (c.status_changed OR EXISTS (SELECT FROM farrier.maas_motion m WHERE m.node_id = o.node_id));
    END IF;
    IF changes ? 'readings' THEN
        UPDATE farrier.node_observations o
           SET state = c.state, since = CASE WHEN o.state = c.state THEN o.since ELSE c.read_at END, read_at = c.read_at,
               stale_since = CASE WHEN o.stale_since > c.read_at THEN o.stale_since END, detail = c.detail,
               owner_by_rescue = coalesce(c.in_rescue OR (o.owner_by_rescue AND o.detail ->> 'owner' = c.detail ->> 'owner'), false),
               lost_at = CASE WHEN c.state <> 'absent' THEN NULL
                              WHEN o.state <> 'absent' AND NOT EXISTS (SELECT FROM farrier.nodes n WHERE n.id = o.node_id AND n.live_workflow_kind = 'decommission')
                              THEN c.read_at ELSE o.lost_at END
          FROM jsonb_to_recordset(changes -> 'readings') c (node bigint, system_id text, state text, read_at timestamptz, detail jsonb, in_rescue boolean)
         WHERE o.node_id = c.node AND o.source = 'maas' AND o.system_id = c.system_id
           AND (o.read_at IS NULL OR o.read_at <= c.read_at);
    END IF;
END $$;

-- =====================================================================================================================
-- Functions: requests
-- =====================================================================================================================

-- Records the responses of a commit to intents of resources of a kind; an intent with a response does not change. Finds each intent
-- by its id: the expressions on the other columns keep the planner from the index of pending intents (see answer_intents). Called by
-- write_resources.
CREATE OR REPLACE FUNCTION farrier.answer_requests(of_kind text, answers jsonb) RETURNS void
    LANGUAGE plpgsql SET enable_seqscan = off SET enable_nestloop = off AS $$
BEGIN
    UPDATE farrier.resource_intents i
       SET status = CASE WHEN a.accepted THEN 'accepted' ELSE 'rejected' END, reason = nullif(a.reason, ''), answered_at = farrier.now()
      FROM jsonb_to_recordset(answers) a (run bigint, request bigint, accepted boolean, reason text)
     WHERE i.id = a.request AND i.kind || '' = of_kind AND i.resource_id + 0 = a.run AND i.status || '' = 'pending'
       AND i.id = ANY (ARRAY(SELECT (e ->> 'request')::bigint FROM jsonb_array_elements(answers) e));
END $$;

-- Notifies clients that wait for the response to an intent, on channel farrier_resource_intent_answered. Trigger function.
CREATE OR REPLACE FUNCTION farrier.notify_resource_intent_answered() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('farrier_resource_intent_answered', '');  -- equal notifications of a transaction are sent once
    RETURN NULL;
END $$;

-- Inserts an intent for a resource of any kind and returns its id; farrier.intent inserts the intents of nodes, and only these store
-- an api_version. May be repeated with an idempotency key, also after the resource has ended: the same call returns the id of the
-- first intent. FR400 for a key that belongs to an intent with another action or other params, FR406 for a version of the API that
-- this database does not support; all other errors are those of the INSERT.
CREATE OR REPLACE FUNCTION farrier.resource_intent(kind text, resource text, action text, params jsonb DEFAULT '{}',
                                        idempotency_key text DEFAULT NULL, requested_by text DEFAULT NULL,
                                        api_version integer DEFAULT NULL) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    new_id bigint;
    violated text;
BEGIN
    IF NOT (kind_of(resource_intent.kind)).from_template THEN
        RETURN intent(resource_intent.resource, resource_intent.action, resource_intent.params, resource_intent.idempotency_key,
                      resource_intent.requested_by, resource_intent.api_version);
    END IF;
    PERFORM refuse_version(resource_intent.api_version);
    BEGIN
        INSERT INTO resource_intents (kind, resource, action, params, idempotency_key, requested_by)
        VALUES (resource_intent.kind, resource_intent.resource, resource_intent.action, resource_intent.params,
                resource_intent.idempotency_key, coalesce(resource_intent.requested_by, session_user))
        RETURNING id INTO new_id;
    EXCEPTION WHEN OTHERS THEN
        GET STACKED DIAGNOSTICS violated = CONSTRAINT_NAME;
        new_id := first_intent(resource_intent.kind, resource_intent.resource, resource_intent.action, resource_intent.params,
                               resource_intent.idempotency_key, violated);
        IF new_id IS NULL THEN RAISE; END IF;
    END;
    RETURN new_id;
END $$;

-- Refuses an intent that is invalid in every state, creates the resource that action `create` requests, and sets the columns that
-- clients do not set. FR400 for an unknown kind, an unknown action or malformed parameters, FR404 for an unknown resource,
-- unique_violation for an idempotency key that is in use. BEFORE INSERT trigger on resource_intents.
CREATE OR REPLACE FUNCTION farrier.validate_resource_intent() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    spec jsonb;
    fault text;
BEGIN
    PERFORM relation_of(NEW.kind);
    SELECT a.params INTO spec FROM kind_actions a WHERE a.kind = NEW.kind AND a.action = NEW.action;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'unknown action % of kind %', coalesce(quote_literal(NEW.action), 'null'), NEW.kind
            USING ERRCODE = 'FR400',
                  HINT = (SELECT 'Known: ' || string_agg(a.action, ', ' ORDER BY a.action) FROM kind_actions a WHERE a.kind = NEW.kind);
    END IF;
    IF octet_length(NEW.params::text) > 16384 THEN
        RAISE EXCEPTION 'params have % bytes; at most 16384 are allowed', octet_length(NEW.params::text) USING ERRCODE = 'FR400';
    END IF;
    fault := CASE WHEN NEW.params IS NULL THEN 'params must be a JSON object' ELSE params_fault(spec, NEW.params) END;
    IF fault IS NOT NULL THEN
        RAISE EXCEPTION '%: %', NEW.action, fault USING ERRCODE = 'FR400';
    END IF;
    IF NEW.resource IS NULL THEN
        RAISE EXCEPTION '%: `resource` is missing', NEW.action USING ERRCODE = 'FR400';
    END IF;
    IF char_length(NEW.idempotency_key) NOT BETWEEN 1 AND 255 OR char_length(NEW.requested_by) NOT BETWEEN 1 AND 255 THEN
        RAISE EXCEPTION '% must have 1 to 255 characters, or be null',
            CASE WHEN char_length(NEW.idempotency_key) NOT BETWEEN 1 AND 255 THEN 'idempotency_key' ELSE 'requested_by' END
            USING ERRCODE = 'FR400';
    END IF;
    NEW.created_at := farrier.now();
    IF NEW.idempotency_key IS NOT NULL THEN
        PERFORM refuse_repeated(NEW.kind, NEW.resource, NEW.action, NEW.idempotency_key);
    END IF;
    IF NEW.action = 'create' THEN
        -- Trigger function enqueue_resource copies these settings to the first row of the resource's history.
        PERFORM set_config('farrier.created_for', NEW.id::text, true), set_config('farrier.created_by', coalesce(NEW.requested_by, ''), true);
        NEW.resource_id := create_resource(NEW.kind, NEW.resource, NEW.params);
        PERFORM set_config('farrier.created_for', '', true), set_config('farrier.created_by', '', true);
    ELSE
        NEW.resource_id := find_resource(NEW.kind, NEW.resource);
    END IF;
    NEW.status := CASE NEW.action WHEN 'create' THEN 'accepted' ELSE 'pending' END;
    NEW.reason := NULL;
    NEW.answered_at := CASE NEW.action WHEN 'create' THEN farrier.now() END;
    RETURN NEW;
END $$;

-- Enqueues the resources of new pending intents. AFTER INSERT trigger on resource_intents.
CREATE OR REPLACE FUNCTION farrier.wake_for_resource_intents() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    INSERT INTO wakes (kind, resource) SELECT DISTINCT kind, resource_id FROM new_rows WHERE status = 'pending';
    RETURN NULL;
END $$;

-- =====================================================================================================================
-- Functions: numbers
-- =====================================================================================================================

-- Releases all numbers of a resource; enter_state does so when a resource ends. May be repeated. Locks no pool, so it does not
-- wait for transactions that take numbers.
CREATE OR REPLACE FUNCTION farrier.free_numbers(kind text, id bigint) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
    WITH gone AS (DELETE FROM pool_numbers n WHERE n.kind = $1 AND n.id = $2 RETURNING n.pool, n.number)
    INSERT INTO freed_numbers SELECT g.pool, g.number FROM gone g ON CONFLICT DO NOTHING;
$$;

-- Creates a pool of numbers, or changes its bounds. May be repeated. Waits for transactions that take numbers of the pool. FR400
-- for bounds that exclude each other, FR409 for bounds that exclude a number that is taken.
CREATE OR REPLACE FUNCTION farrier.set_pool(pool text, first integer, last integer) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
#variable_conflict use_column
DECLARE
    outside text;
BEGIN
    IF set_pool.first > set_pool.last THEN
        RAISE EXCEPTION 'pool % cannot range from % to %', set_pool.pool, set_pool.first, set_pool.last USING ERRCODE = 'FR400';
    END IF;
    -- Numbers below the old bounds may be free: next goes back, and take_number advances it again.
    INSERT INTO number_pools AS p VALUES (set_pool.pool, set_pool.first, set_pool.last, set_pool.first)
        ON CONFLICT (pool) DO UPDATE SET first = excluded.first, last = excluded.last,
            next = CASE WHEN excluded.first < p.first THEN excluded.first ELSE greatest(p.next, excluded.first) END;
    SELECT string_agg(format('%s (%s %s)', t.number, replace(t.kind, '_', ' '), t.id), ', ' ORDER BY t.number) INTO outside
      FROM (SELECT n.* FROM pool_numbers n WHERE n.pool = set_pool.pool
               AND n.number NOT BETWEEN set_pool.first AND set_pool.last ORDER BY n.number LIMIT 5) t;
    IF outside IS NOT NULL THEN
        RAISE EXCEPTION 'pool % cannot range from % to %: resources have these numbers outside the range: %', set_pool.pool, set_pool.first, set_pool.last, outside
            USING ERRCODE = 'FR409', HINT = 'Delete the resources with these numbers, or include the numbers.';
    END IF;
END $$;

-- Takes a number of a pool for a resource and returns it: the wanted number or, if wanted is null, the lowest free
-- number. Locks the pool's row until the transaction ends, so transactions that take numbers of one pool take turns.
-- FR409 for an unknown pool, a pool without a free number, and a wanted number that is taken or not in the pool.
CREATE OR REPLACE FUNCTION farrier.take_number(pool text, kind text, id bigint, wanted integer DEFAULT NULL) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    bounds record;
    holder record;
    ahead integer;
    mark bigint;
    taken integer;
BEGIN
    SELECT p.first, p.last, p.next INTO bounds FROM number_pools p WHERE p.pool = take_number.pool FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'pool % does not exist', coalesce(quote_literal(pool), 'null')
            USING ERRCODE = 'FR409', HINT = format('Create the pool with SELECT farrier.set_pool(%L, first, last).', pool);
    END IF;
    IF wanted IS NULL THEN
        mark := bounds.next;
        SELECT f.number INTO taken FROM freed_numbers f
         WHERE f.pool = take_number.pool AND f.number BETWEEN bounds.first AND bounds.last ORDER BY f.number LIMIT 1;
        IF taken IS NULL OR taken >= mark THEN
            -- Moves the mark past numbers that were taken by `wanted`.
            FOR ahead IN SELECT n.number FROM pool_numbers n WHERE n.pool = take_number.pool AND n.number >= mark ORDER BY n.number LOOP
                EXIT WHEN ahead > mark;
                mark := mark + 1;
            END LOOP;
            IF mark <= bounds.last THEN
                taken := mark;
                mark := mark + 1;
            END IF;
        END IF;
        IF mark <> bounds.next THEN UPDATE number_pools p SET next = mark WHERE p.pool = take_number.pool; END IF;
        IF taken IS NULL THEN
            RAISE EXCEPTION 'pool % is exhausted: all numbers from % to % are taken', pool, bounds.first, bounds.last
                USING ERRCODE = 'FR409', HINT = 'Extend the pool with farrier.set_pool().';
        END IF;
    ELSIF wanted NOT BETWEEN bounds.first AND bounds.last THEN
        RAISE EXCEPTION '% is not in pool %, which ranges from % to %', wanted, pool, bounds.first, bounds.last USING ERRCODE = 'FR409';
    ELSE
        SELECT n.kind, n.id INTO holder FROM pool_numbers n WHERE n.pool = take_number.pool AND n.number = wanted;
        IF FOUND THEN
            RAISE EXCEPTION 'number % of pool % is taken by % %', wanted, pool, replace(holder.kind, '_', ' '), holder.id
                USING ERRCODE = 'FR409', HINT = 'Omit the number to get a free one.';
        END IF;
        taken := wanted;
    END IF;
    DELETE FROM freed_numbers f WHERE f.pool = take_number.pool AND f.number = taken;
    INSERT INTO pool_numbers VALUES (pool, taken, take_number.kind, take_number.id);
    RETURN taken;
END $$;

-- =====================================================================================================================
-- Functions: segments
-- =====================================================================================================================

-- Allocates an address of a ready segment and returns it: the lowest free address of the segment, the lowest free
-- address of the prefix in `wanted`, or exactly the address in `wanted`. An owner has one address of each family, so a
-- repeated call returns the same address, and records the node if the call names one. Locks the segment's row of
-- segment_usage until the transaction ends: allocations of one segment take turns. Call it late in a transaction, and
-- for several segments always in the same order. FR400 for malformed arguments, FR404 for an unknown segment or node,
-- FR409 for a segment that is not ready or has no free address, and for a wanted address that is not free.
CREATE OR REPLACE FUNCTION farrier.allocate_address(segment text, owner text, wanted inet DEFAULT NULL, node bigint DEFAULT NULL) RETURNS inet
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
#variable_conflict use_column
DECLARE
    here bigint := find_resource('network_segment', allocate_address.segment);
    called text := allocate_address.segment;
    who text := allocate_address.owner;
    usage segment_usage;
    state text;
    within cidr;
    exact boolean := coalesce(masklen(wanted) = CASE family(wanted) WHEN 4 THEN 32 ELSE 128 END, false);
    mine inet;
    gap segment_free;
BEGIN
    IF who IS NULL OR who !~ '\S' OR char_length(who) > 253 THEN
        RAISE EXCEPTION 'owner must be a text of 1 to 253 characters, not blank' USING ERRCODE = 'FR400';
    END IF;
    IF allocate_address.node IS NOT NULL AND NOT EXISTS (SELECT FROM nodes n WHERE n.id = allocate_address.node AND n.status <> 'deleted') THEN
        RAISE EXCEPTION 'no node has ID %', allocate_address.node USING ERRCODE = 'FR404', HINT = 'Omit the ID if the address is not for a node.';
    END IF;
    SELECT * INTO usage FROM segment_usage u WHERE u.segment = here FOR NO KEY UPDATE;
    SELECT a.address INTO mine FROM segment_addresses a
     WHERE a.segment = here AND a.owner = who AND (wanted IS NULL OR family(a.address) = family(wanted)) ORDER BY a.address LIMIT 1;
    IF FOUND THEN
        IF wanted IS NOT NULL AND NOT mine <<= wanted THEN
            RAISE EXCEPTION '% already has address % of segment %, and cannot also get %', who, host(mine), called, wanted
                USING ERRCODE = 'FR409', HINT = 'Release that address first with farrier.release_address(), or use another owner.';
        END IF;
        UPDATE segment_addresses a SET node = allocate_address.node
         WHERE a.segment = here AND a.address = mine AND allocate_address.node IS NOT NULL AND a.node IS DISTINCT FROM allocate_address.node;
        RETURN mine;
    END IF;
    SELECT s.state INTO state FROM network_segments s WHERE s.id = here;
    IF NOT usage.open OR state = 'provisioning' THEN
        RAISE EXCEPTION 'segment % is %; addresses can only be allocated in state ready', called, state
            USING ERRCODE = 'FR409', HINT = 'A provisioning segment becomes ready at once; a deleting one allocates no more addresses.';
    END IF;
    IF wanted IS NOT NULL THEN
        SELECT p.prefix INTO within FROM segment_prefixes p
         WHERE p.segment = here AND CASE WHEN exact THEN p.prefix >>= wanted ELSE p.prefix::inet = wanted END;
        IF NOT FOUND THEN
            RAISE EXCEPTION '% is neither a prefix of segment % nor an address in one; its prefixes are %', wanted, called,
                (SELECT string_agg(p.prefix::text, ', ' ORDER BY p.prefix) FROM segment_prefixes p WHERE p.segment = here)
                USING ERRCODE = 'FR400';
        END IF;
    END IF;
    SELECT * INTO gap FROM segment_free f
     WHERE f.segment = here AND (wanted IS NULL OR f.last >= host(wanted)::inet) ORDER BY f.last LIMIT 1;
    IF exact AND (gap.first IS NULL OR gap.first > wanted) THEN
        RAISE EXCEPTION '% of segment % %', host(wanted), called, why_not_free(here, within, wanted) USING ERRCODE = 'FR409';
    ELSIF gap.first IS NULL OR gap.prefix <> within THEN
        RAISE EXCEPTION '% is full: all its % addresses are allocated',
            CASE WHEN within IS NULL THEN 'segment ' || called ELSE format('prefix %s of segment %s', within, called) END,
            (SELECT sum(p.usable) FROM segment_prefixes p WHERE p.segment = here AND (within IS NULL OR p.prefix = within))
            USING ERRCODE = 'FR409', HINT = 'To add prefixes, submit update for the segment.';
    END IF;
    mine := CASE WHEN exact THEN wanted ELSE gap.first END;
    PERFORM take_from(gap, mine);
    INSERT INTO segment_addresses (segment, address, prefix, owner, node) VALUES (here, mine, gap.prefix, who, allocate_address.node);
    UPDATE segment_usage u SET allocated = u.allocated + 1 WHERE u.segment = here;
    RETURN mine;
END $$;

-- Refuses a gateway of a segment (FR400) that is in none of its prefixes, that is a network or broadcast address, or
-- that is the second gateway of a prefix.
CREATE OR REPLACE FUNCTION farrier.check_gateways(of_segment farrier.network_segments) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = farrier, pg_temp AS $$
DECLARE
    fault text;
BEGIN
    fault := (SELECT format('gateway %s is not in a prefix of the segment', g) FROM unnest(of_segment.gateways) g
               WHERE NOT EXISTS (SELECT FROM unnest(of_segment.prefixes) p WHERE g::inet <<= p::inet)
              UNION ALL
              SELECT format('gateway %s is the network or broadcast address of %s', g, p)
                FROM unnest(of_segment.gateways) g JOIN unnest(of_segment.prefixes) p ON g::inet <<= p::inet
               CROSS JOIN LATERAL farrier.hosts_of(p::cidr) h WHERE g::inet NOT BETWEEN h.first AND h.last
              UNION ALL
              SELECT format('prefix %s has more than one gateway: %s', p, string_agg(g, ', ' ORDER BY g))
                FROM unnest(of_segment.gateways) g JOIN unnest(of_segment.prefixes) p ON g::inet <<= p::inet
               GROUP BY p HAVING count(*) > 1
               LIMIT 1);
    IF fault IS NOT NULL THEN RAISE EXCEPTION 'segment %: %', of_segment.name, fault USING ERRCODE = 'FR400'; END IF;
END $$;

-- Applies a change of a segment's state: from the beginning of its deletion the segment allocates no addresses, and when it ends it
-- releases its prefixes and numbers. FR409 if it ends while addresses are allocated. AFTER UPDATE trigger on network_segments.
CREATE OR REPLACE FUNCTION farrier.follow_segment() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    UPDATE segment_usage u SET open = NOT u.open WHERE u.segment = NEW.id AND u.open <> (NEW.state IN ('provisioning', 'ready'));
    IF NEW.ended_at IS NOT NULL THEN
        IF EXISTS (SELECT FROM segment_usage u WHERE u.segment = NEW.id AND u.allocated > 0) THEN
            RAISE EXCEPTION 'segment % still has allocated addresses', NEW.name USING ERRCODE = 'FR409';
        END IF;
        DELETE FROM segment_prefixes p WHERE p.segment = NEW.id;
        PERFORM free_segment_numbers(NEW);
    END IF;
    RETURN NULL;
END $$;

-- Releases the numbers of a segment that ends, including those that take_segment_number recorded in a pool under
-- another segment.
CREATE OR REPLACE FUNCTION farrier.free_segment_numbers(ended farrier.network_segments) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    UPDATE pool_numbers n SET id = ended.id
     WHERE n.pool = 'vlan:' || ended.site AND n.number = ended.vlan AND n.kind = 'network_segment' AND n.id <> ended.id;
    UPDATE pool_numbers n SET id = ended.id
     WHERE n.pool = 'vni' AND n.number = ended.vni AND n.kind = 'network_segment' AND n.id <> ended.id;
    PERFORM free_numbers('network_segment', ended.id);
END $$;

-- Returns the first and the last address of a prefix that a host may have, and how many there are. In a prefix of one
-- or two addresses, a host may have any address. In an IPv6 prefix, a host may also have the last address, because IPv6
-- has no broadcast address.
CREATE OR REPLACE FUNCTION farrier.hosts_of(prefix cidr, OUT first inet, OUT last inet, OUT many numeric)
    LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    first := host(network(prefix))::inet;
    last := host(broadcast(prefix))::inet;
    many := trunc(2::numeric ^ (CASE family(prefix) WHEN 4 THEN 32 ELSE 128 END - masklen(prefix)));
    IF many <= 2 THEN RETURN; END IF;
    first := first + 1;
    many := many - 1;
    IF family(prefix) = 4 THEN
        last := last - 1;
        many := many - 1;
    END IF;
END $$;

-- Returns the allocated addresses of a segment, by its name or id, with their owners. FR404 for a segment that has ended.
CREATE OR REPLACE FUNCTION farrier.list_addresses(segment text)
    RETURNS TABLE (address inet, prefix cidr, owner text, node bigint, allocated_at timestamptz)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
    SELECT a.address, a.prefix, a.owner, a.node, a.allocated_at FROM segment_addresses a
     WHERE a.segment = find_resource('network_segment', $1) ORDER BY a.address;
$$;

-- Sets segment_usage.last_released_at at COMMIT, when other transactions can see the release: the time of a drain
-- counts from COMMIT, even after a long transaction. Deferred trigger on segment_usage.
CREATE OR REPLACE FUNCTION farrier.mark_release() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    UPDATE segment_usage u SET last_released_at = farrier.now()
     WHERE u.segment = NEW.segment AND (u.last_released_at IS NULL OR u.last_released_at < farrier.now());
    RETURN NULL;
END $$;

-- Returns what a listing shows of a segment besides its columns: how many addresses are used and free, the last release, and the
-- requester of its deletion. Called through detail_of for each segment of a listing, so the requester is read only if a deletion is
-- recorded.
CREATE OR REPLACE FUNCTION farrier.network_segment_detail(id bigint) RETURNS jsonb
    LANGUAGE plpgsql STABLE AS $$
DECLARE
    used bigint;
    free numeric;
    released timestamptz;
    asked bigint;
    who text;
BEGIN
    SELECT u.allocated, (SELECT sum(p.usable) FROM farrier.segment_prefixes p WHERE p.segment = $1), u.last_released_at, s.delete_request
      INTO used, free, released, asked
      FROM farrier.segment_usage u JOIN farrier.network_segments s ON s.id = u.segment WHERE u.segment = $1;
    IF asked IS NOT NULL THEN
        SELECT i.requested_by INTO who FROM farrier.resource_intents i WHERE i.id = asked;
    END IF;
    RETURN jsonb_build_object('addresses_used', used, 'addresses_free', coalesce(free, 0) - used, 'last_released_at', released, 'delete_asked_by', who);
END $$;

-- Adds one prefix with its gateway to a segment, and adds the addresses of the prefix, except the reserved ones and the
-- gateway, to segment_free. FR400 for a prefix without an allocatable address, FR409 for a prefix that overlaps another
-- prefix of the site, serialization_failure if this transaction cannot see that other prefix.
CREATE OR REPLACE FUNCTION farrier.open_prefix(of_segment farrier.network_segments, opened cidr) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    hosts record;
    low inet;
    high inet;
    way inet;
    usable numeric;
    other record;
BEGIN
    SELECT p.prefix, s.name INTO other FROM segment_prefixes p JOIN network_segments s ON s.id = p.segment
     WHERE p.site = of_segment.site AND p.prefix && opened LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'segment %: prefix % overlaps % of segment %', of_segment.name, opened, other.prefix, other.name
            USING ERRCODE = 'FR409', HINT = 'Prefixes of a site must not overlap. A deleted segment releases its prefixes when it ends.';
    END IF;
    SELECT * INTO hosts FROM hosts_of(opened);
    usable := hosts.many - of_segment.reserved_first - of_segment.reserved_last;
    IF usable > 0 THEN
        low := hosts.first + of_segment.reserved_first;
        high := hosts.last - of_segment.reserved_last;
        way := (SELECT g::inet FROM unnest(of_segment.gateways) g WHERE g::inet <<= opened);
        IF way BETWEEN low AND high THEN usable := usable - 1; END IF;
    END IF;
    IF usable <= 0 THEN
        RAISE EXCEPTION 'segment %: prefix % has no allocatable address; it has % host addresses, of which % are reserved or the gateway',
            of_segment.name, opened, hosts.many, hosts.many - usable USING ERRCODE = 'FR400';
    END IF;
    BEGIN
        INSERT INTO segment_prefixes (segment, prefix, site, gateway, reserved_first, reserved_last, first, last, usable)
        VALUES (of_segment.id, opened, of_segment.site, way, of_segment.reserved_first, of_segment.reserved_last, low, high, usable);
    EXCEPTION WHEN exclusion_violation THEN
        -- Occurs only in a transaction whose snapshot is older than the other prefix; a new transaction sees that
        -- prefix.
        RAISE EXCEPTION 'segment %: prefix % overlaps a prefix that was added at the same time', of_segment.name, opened
            USING ERRCODE = 'serialization_failure', CONSTRAINT = 'segment_prefixes_apart', HINT = 'Retry in a new transaction.';
    END;
    IF way BETWEEN low AND high THEN
        IF way > low THEN INSERT INTO segment_free VALUES (of_segment.id, opened, low, way - 1); END IF;
        IF way < high THEN INSERT INTO segment_free VALUES (of_segment.id, opened, way + 1, high); END IF;
    ELSE
        INSERT INTO segment_free VALUES (of_segment.id, opened, low, high);
    END IF;
END $$;

-- Adds the prefixes of a new segment, and the prefixes that an UPDATE adds. FR409 for an UPDATE that removes or changes
-- a prefix or a gateway. Locks the site (lock_keys, purpose segment_prefixes), so transactions that add prefixes at a
-- site take turns: they cannot deadlock, and an overlap is reported with the other segment's name. AFTER INSERT or
-- UPDATE trigger on network_segments.
CREATE OR REPLACE FUNCTION farrier.open_prefixes() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    opened cidr;
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO segment_usage (segment) VALUES (NEW.id);
    ELSIF NOT NEW.prefixes @> OLD.prefixes OR NOT NEW.gateways @> OLD.gateways THEN
        RAISE EXCEPTION 'segment %: existing prefixes and gateways cannot be removed or changed', NEW.name USING ERRCODE = 'FR409';
    END IF;
    PERFORM check_gateways(NEW);
    PERFORM lock_keys('segment_prefixes', ARRAY[NEW.site]);
    FOR opened IN SELECT p::cidr FROM unnest(NEW.prefixes) WITH ORDINALITY u (p, n)
                   WHERE NOT EXISTS (SELECT FROM segment_prefixes x WHERE x.segment = NEW.id AND x.prefix = p::cidr) ORDER BY n LOOP
        PERFORM open_prefix(NEW, opened);
    END LOOP;
    RETURN NULL;
END $$;

-- Returns what is wrong with the text of a prefix, or null. Refuses host bits, which are more often a mistake than intended.
CREATE OR REPLACE FUNCTION farrier.prefix_fault(given text) RETURNS text
    LANGUAGE plpgsql IMMUTABLE SET search_path = farrier, pg_temp AS $$
DECLARE
    fault text := format('prefix %s is not a network address such as 10.0.0.0/24 or 2001:db8::/64', coalesce(given, 'null'));
BEGIN
    -- PostgreSQL would accept 10/8, and an address alone; both are more often mistakes than intended.
    IF given IS NULL OR given !~ '\A([0-9]{1,3}(\.[0-9]{1,3}){3}|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*)/[0-9]{1,3}\Z' THEN RETURN fault; END IF;
    IF given::inet <> network(given::inet)::inet THEN
        RETURN format('prefix %s has host bits; the network is %s', given, network(given::inet));
    END IF;
    RETURN NULL;
EXCEPTION WHEN invalid_text_representation OR invalid_binary_representation THEN
    RETURN fault;
END $$;

-- Checks the prefixes, gateways and MTU of a segment (FR400), stores them in PostgreSQL's spelling, and takes the VLAN and VNI of
-- a new segment. BEFORE INSERT or UPDATE trigger on network_segments.
CREATE OR REPLACE FUNCTION farrier.prepare_segment() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    given text;
    fault text;
BEGIN
    IF NEW.site IS NULL OR NEW.site !~ '\S' THEN
        RAISE EXCEPTION 'segment %: `site` is missing', NEW.name USING ERRCODE = 'FR400';
    END IF;
    IF coalesce(cardinality(NEW.prefixes), 0) NOT BETWEEN 1 AND 16 THEN
        RAISE EXCEPTION 'segment %: needs 1 to 16 prefixes', NEW.name USING ERRCODE = 'FR400';
    END IF;
    FOREACH given IN ARRAY NEW.prefixes LOOP
        fault := prefix_fault(given);
        IF fault IS NOT NULL THEN RAISE EXCEPTION 'segment %: %', NEW.name, fault USING ERRCODE = 'FR400'; END IF;
    END LOOP;
    FOREACH given IN ARRAY NEW.gateways LOOP
        IF prefix_fault(given || CASE WHEN given LIKE '%:%' THEN '/128' ELSE '/32' END) IS NOT NULL THEN
            RAISE EXCEPTION 'segment %: gateway % is not an IP address', NEW.name, given USING ERRCODE = 'FR400';
        END IF;
    END LOOP;
    NEW.gateways := ARRAY(SELECT host(g::inet) FROM unnest(NEW.gateways) WITH ORDINALITY u (g, n) ORDER BY n);
    NEW.prefixes := ARRAY(SELECT p::cidr::text FROM unnest(NEW.prefixes) WITH ORDINALITY u (p, n) ORDER BY n);
    IF NEW.mtu < 1280 AND EXISTS (SELECT FROM unnest(NEW.prefixes) p WHERE family(p::cidr) = 6) THEN
        RAISE EXCEPTION 'segment %: an MTU of % is too small for IPv6, which requires 1280', NEW.name, NEW.mtu USING ERRCODE = 'FR400';
    END IF;
    IF TG_OP = 'INSERT' THEN
        -- The pool of all sites comes first, so that creations at two sites cannot deadlock.
        NEW.vni := take_segment_number('vni', 'vni', NEW.site, NEW.id, NEW.vni);
        NEW.vlan := take_segment_number('vlan:' || NEW.site, 'vlan', NEW.site, NEW.id, NEW.vlan);
    END IF;
    RETURN NEW;
END $$;

-- Adds an address to the free ranges of its prefix, merged with the ranges that it touches. The caller has locked segment_usage.
CREATE OR REPLACE FUNCTION farrier.put_back(of_segment bigint, of_prefix cidr, back inet) RETURNS void
    LANGUAGE plpgsql AS $$
DECLARE
    low inet := back;
    next farrier.segment_free;
BEGIN
    -- The prefix has no address before its first one, and none after its last one.
    IF back > host(network(of_prefix))::inet THEN
        DELETE FROM farrier.segment_free f WHERE f.segment = of_segment AND f.last = back - 1 AND f.prefix = of_prefix
        RETURNING f.first INTO low;
        low := coalesce(low, back);
    END IF;
    IF back < host(broadcast(of_prefix))::inet THEN
        SELECT * INTO next FROM farrier.segment_free f WHERE f.segment = of_segment AND f.last > back ORDER BY f.last LIMIT 1;
        IF next.prefix = of_prefix AND next.first = back + 1 THEN
            UPDATE farrier.segment_free f SET first = low WHERE f.segment = of_segment AND f.last = next.last;
            RETURN;
        END IF;
    END IF;
    INSERT INTO farrier.segment_free VALUES (of_segment, of_prefix, low, back);
END $$;

-- Releases an address and returns true; false if it is not allocated, so a repeated call succeeds, even after the
-- segment has ended. Enqueues the segment if it drains; otherwise enqueues the nodes that wait for an address of the
-- segment. FR400 for a null, FR404 for an unknown segment, FR409 for an address of another owner.
CREATE OR REPLACE FUNCTION farrier.release_address(segment text, address inet, owner text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
#variable_conflict use_column
DECLARE
    called text := release_address.segment;
    given inet := host(release_address.address)::inet;
    here bigint;
    usage segment_usage;
    held segment_addresses;
BEGIN
    -- Also finds a segment that has ended, so that a repeated release succeeds.
    IF called ~ '^[0-9]{1,18}$' THEN
        SELECT s.id INTO here FROM network_segments s WHERE s.id = called::bigint;
    ELSE
        SELECT s.id INTO here FROM network_segments s WHERE s.name = called AND s.ended_at IS NULL;
        IF here IS NULL THEN
            SELECT s.id INTO here FROM network_segments s WHERE s.name = called AND s.ended_at IS NOT NULL ORDER BY s.id DESC LIMIT 1;
        END IF;
    END IF;
    IF here IS NULL THEN here := find_resource('network_segment', called); END IF;
    IF given IS NULL OR release_address.owner IS NULL THEN
        RAISE EXCEPTION 'address and owner must not be null' USING ERRCODE = 'FR400';
    END IF;
    SELECT * INTO usage FROM segment_usage u WHERE u.segment = here FOR NO KEY UPDATE;
    SELECT * INTO held FROM segment_addresses a WHERE a.segment = here AND a.address = given;
    IF NOT FOUND THEN RETURN false; END IF;
    IF held.owner <> release_address.owner THEN
        RAISE EXCEPTION '% of segment % is taken by %, not by %', host(given), called, held.owner, release_address.owner
            USING ERRCODE = 'FR409', HINT = 'Only its owner can release an address.';
    END IF;
    DELETE FROM segment_addresses a WHERE a.segment = here AND a.address = given;
    PERFORM put_back(here, held.prefix, given);
    UPDATE segment_usage u SET allocated = u.allocated - 1 WHERE u.segment = here;
    IF usage.open THEN
        PERFORM wake_users('network_segment', s.name) FROM network_segments s WHERE s.id = here;
    ELSE
        PERFORM enqueue('network_segment', here);
    END IF;
    RETURN true;
END $$;

-- Removes one address from a range of free ones. The caller has locked segment_usage.
CREATE OR REPLACE FUNCTION farrier.take_from(gap farrier.segment_free, taken inet) RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    IF gap.first = gap.last THEN
        DELETE FROM farrier.segment_free f WHERE f.segment = gap.segment AND f.last = gap.last;
    ELSIF taken = gap.first THEN
        UPDATE farrier.segment_free f SET first = taken + 1 WHERE f.segment = gap.segment AND f.last = gap.last;
    ELSIF taken = gap.last THEN
        UPDATE farrier.segment_free f SET last = taken - 1 WHERE f.segment = gap.segment AND f.last = gap.last;
    ELSE
        UPDATE farrier.segment_free f SET first = taken + 1 WHERE f.segment = gap.segment AND f.last = gap.last;
        INSERT INTO farrier.segment_free VALUES (gap.segment, gap.prefix, gap.first, taken - 1);
    END IF;
END $$;

-- Takes the VLAN or VNI of a new segment and returns it: the wanted number, or the next number of the pool; null if
-- there is neither. A segment may have a number from before the pool was created. The pool then records that number
-- under the new segment, which takes the next one, and free_segment_numbers releases it when either of the two segments
-- ends. Locks the number (lock_keys, purpose segment_number) and no segment, because commits of the controller would
-- wait for a client that creates a segment. FR409 for a wanted number that a segment has.
CREATE OR REPLACE FUNCTION farrier.take_segment_number(of_pool text, of_column text, for_site text, for_id bigint, wanted integer) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    pooled boolean := EXISTS (SELECT FROM number_pools p WHERE p.pool = of_pool);
    taken integer := wanted;
    holder text;
BEGIN
    IF wanted IS NULL AND NOT pooled THEN RETURN NULL; END IF;
    LOOP
        IF pooled THEN taken := take_number(of_pool, 'network_segment', for_id, wanted); END IF;
        holder := who_has_number(of_column, for_site, taken);
        IF holder IS NULL THEN
            PERFORM lock_keys('segment_number', ARRAY[format('%s:%s', of_pool, taken)]);
            holder := who_has_number(of_column, for_site, taken);
            IF holder IS NULL THEN RETURN taken; END IF;
        END IF;
        IF wanted IS NOT NULL THEN
            RAISE EXCEPTION '% % is taken by segment %', upper(of_column), wanted, holder
                USING ERRCODE = 'FR409', HINT = 'Omit the number to get one from the pool, if there is a pool.';
        END IF;
    END LOOP;
END $$;

-- Returns the name of the segment that has this VLAN at the site, or this VNI, and has not ended; null if there is none.
CREATE OR REPLACE FUNCTION farrier.who_has_number(of_column text, for_site text, wanted integer) RETURNS text
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
BEGIN
    IF of_column = 'vlan' THEN
        RETURN (SELECT s.name FROM network_segments s WHERE s.site = for_site AND s.vlan = wanted AND s.ended_at IS NULL);
    END IF;
    RETURN (SELECT s.name FROM network_segments s WHERE s.vni = wanted AND s.ended_at IS NULL);
END $$;

-- Returns why a wanted address cannot be allocated. The address is in the prefix and in no free range.
CREATE OR REPLACE FUNCTION farrier.why_not_free(of_segment bigint, of_prefix cidr, wanted inet) RETURNS text
    LANGUAGE sql STABLE
    RETURN coalesce(
        (SELECT format('is taken by %s', a.owner) FROM farrier.segment_addresses a WHERE a.segment = of_segment AND a.address = wanted),
        (SELECT CASE WHEN p.gateway = wanted THEN format('is the gateway of %s', p.prefix)
                     WHEN wanted NOT BETWEEN h.first AND h.last THEN format('is the network or broadcast address of %s', p.prefix)
                     ELSE format('is reserved; %s allocates %s to %s', p.prefix, host(p.first), host(p.last)) END
           FROM farrier.segment_prefixes p CROSS JOIN LATERAL farrier.hosts_of(p.prefix) h
          WHERE p.segment = of_segment AND p.prefix = of_prefix));

-- Writes the segments of a commit; the writer of kind network_segment. Waits for no client. Sections besides those of
-- write_resources: `closes` [{run, unused}], segments that begin to drain. Such a run is due again in a second while a
-- client allocates or releases an address of the segment, and at once if the segment has addresses and the run's
-- snapshot had none, or the reverse. `grows` [{run, site}], segments that get more prefixes. While another transaction
-- adds prefixes at the site, such a run is due again in a second.
CREATE OR REPLACE FUNCTION farrier.write_network_segments(changes jsonb) RETURNS TABLE (run bigint, due_in interval)
    LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    held bigint[] := '{}';
    other bigint[] := '{}';
    mine bigint[];
BEGIN
    IF changes ? 'closes' THEN
        WITH asked AS (
            SELECT c.run, c.unused FROM jsonb_to_recordset(changes -> 'closes') c (run bigint, unused boolean)
        ), free AS MATERIALIZED (
            SELECT u.segment, u.allocated FROM farrier.segment_usage u WHERE u.segment IN (SELECT a.run FROM asked a)
             ORDER BY u.segment FOR NO KEY UPDATE SKIP LOCKED
        )
        SELECT coalesce(array_agg(a.run) FILTER (WHERE f.segment IS NULL), '{}'),
               coalesce(array_agg(a.run) FILTER (WHERE (f.allocated = 0) <> a.unused), '{}')
          INTO held, other FROM asked a LEFT JOIN free f ON f.segment = a.run;
    END IF;
    IF changes ? 'grows' THEN
        held := held || ARRAY(SELECT c.run FROM jsonb_to_recordset(changes -> 'grows') c (run bigint, site text)
                               WHERE NOT farrier.try_lock_key('segment_prefixes', c.site));
    END IF;
    IF held <> '{}' OR other <> '{}' THEN
        RETURN QUERY SELECT h, interval '1 second' FROM unnest(held) h;
        RETURN QUERY SELECT o, interval '0' FROM unnest(other) o;
        mine := ARRAY(SELECT c.run FROM jsonb_to_recordset(changes -> 'runs') c (run bigint) WHERE c.run <> ALL (held || other));
        IF mine = '{}' THEN RETURN; END IF;
        changes := farrier.filter_runs(changes, mine);
    END IF;
    RETURN QUERY SELECT w.run, w.due_in FROM farrier.write_resources(changes) w;
END $$;

-- =====================================================================================================================
-- Functions: partitions
-- =====================================================================================================================

-- Refuses a member of a partition that is being deleted (FR409). Deferred trigger on ib_members: at COMMIT it locks the row of the
-- partition FOR SHARE. If one transaction adds the first member while another transaction deletes the partition, one of
-- the two is refused.
CREATE OR REPLACE FUNCTION farrier.admit_member() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    PERFORM FROM ib_partitions p WHERE p.id = NEW.partition FOR SHARE;
    PERFORM refuse_joining(NEW.partition);
    RETURN NULL;
END $$;

-- Refuses a pool of partition keys with a number that no partition can have (FR400): the lowest number is given first, so every
-- new partition would take it and fail. BEFORE INSERT or UPDATE trigger on number_pools.
CREATE OR REPLACE FUNCTION farrier.check_pkey_pool() RETURNS trigger
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
BEGIN
    IF NEW.first < 1 OR NEW.last > 32766 THEN
        RAISE EXCEPTION 'pool % cannot range from % to %: keys of partitions range from 1 (0x0001) to 32766 (0x7ffe)',
            NEW.pool, NEW.first, NEW.last
            USING ERRCODE = 'FR400', HINT = '0x7fff is the default partition of UFM.';
    END IF;
    RETURN NEW;
END $$;

-- Returns the runs whose partition another transaction has locked, and the runs that end a partition with a member that another
-- transaction has locked. Locks the partitions of all other runs, and the members of partitions that end. Called by
-- write_ib_partitions.
CREATE OR REPLACE FUNCTION farrier.held_partitions(changes jsonb) RETURNS bigint[]
    LANGUAGE plpgsql AS $$
DECLARE
    free bigint[];
    ending bigint[] := ARRAY(
        SELECT c.run FROM jsonb_to_recordset(changes -> 'resources') c (run bigint, state text) WHERE c.state = 'gone');
    busy bigint[] := '{}';
BEGIN
    free := ARRAY(
        SELECT p.id FROM farrier.ib_partitions p JOIN jsonb_to_recordset(changes -> 'runs') c (run bigint) ON c.run = p.id
         ORDER BY p.id FOR NO KEY UPDATE OF p SKIP LOCKED);
    IF ending <> '{}' THEN
        WITH unheld AS MATERIALIZED (
            SELECT m.partition, m.guid FROM farrier.ib_members m WHERE m.partition = ANY (ending)
             ORDER BY m.partition, m.guid FOR UPDATE SKIP LOCKED)
        SELECT coalesce(array_agg(DISTINCT m.partition), '{}') INTO busy FROM farrier.ib_members m
         WHERE m.partition = ANY (ending) AND NOT EXISTS (SELECT FROM unheld u WHERE u.partition = m.partition AND u.guid = m.guid);
    END IF;
    RETURN ARRAY(SELECT c.run FROM jsonb_to_recordset(changes -> 'runs') c (run bigint) WHERE c.run <> ALL (free) OR c.run = ANY (busy));
END $$;

-- Returns the GUID of a port in the stored form. FR400 for any other text.
CREATE OR REPLACE FUNCTION farrier.ib_guid(given text) RETURNS text
    LANGUAGE plpgsql IMMUTABLE SET search_path = farrier, pg_temp AS $$
BEGIN
    IF given IS NULL OR given !~* '\A(0x)?[0-9a-f]{16}\Z' THEN
        RAISE EXCEPTION '% is not the GUID of a port; expected 16 hexadecimal digits', coalesce(quote_literal(given), 'null')
            USING ERRCODE = 'FR400', HINT = 'ibstat shows the GUID as Port GUID.';
    END IF;
    RETURN right(lower(given), 16);
END $$;

-- Returns what a listing shows of a partition besides its columns: its number as UFM, subnet managers and hosts write it. Called
-- through detail_of.
CREATE OR REPLACE FUNCTION farrier.ib_partition_detail(id bigint) RETURNS jsonb
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
    SELECT jsonb_build_object('pkey_hex', '0x' || to_hex(p.pkey)) FROM ib_partitions p WHERE p.id = $1;
$$;

-- Makes a port a member of a partition for an owner, and returns the member's state: `pending` until UFM has the
-- member, then `applied`; `refused` while UFM refuses the member. May be repeated; a call with another membership or
-- node changes the member. FR400 for malformed arguments, FR404 for an unknown partition or node, FR409 for a partition
-- that is being deleted and for a port that another owner made a member.
CREATE OR REPLACE FUNCTION farrier.join_partition(partition text, guid text, owner text, node bigint DEFAULT NULL, membership text DEFAULT 'full')
    RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
#variable_conflict use_column
DECLARE
    port text := ib_guid(join_partition.guid);
    of_id bigint := find_resource('ib_partition', join_partition.partition);
    known ib_members;
    answer text;
BEGIN
    IF join_partition.owner IS NULL OR join_partition.owner !~ '\S' OR char_length(join_partition.owner) > 253 THEN
        RAISE EXCEPTION 'owner must name the owner of the port, in 1 to 253 characters' USING ERRCODE = 'FR400';
    END IF;
    IF join_partition.membership IS NULL OR join_partition.membership NOT IN ('full', 'limited') THEN
        RAISE EXCEPTION 'membership must be full or limited; got %', coalesce(quote_literal(join_partition.membership), 'null')
            USING ERRCODE = 'FR400';
    END IF;
    IF join_partition.node IS NOT NULL AND NOT EXISTS (SELECT FROM nodes n WHERE n.id = join_partition.node AND n.status <> 'deleted') THEN
        RAISE EXCEPTION 'no node has ID %', join_partition.node USING ERRCODE = 'FR404';
    END IF;
    PERFORM refuse_joining(of_id);
    SELECT m.* INTO known FROM ib_members m WHERE m.partition = of_id AND m.guid = port;
    IF known.state <> 'leaving' AND known.owner = join_partition.owner AND known.membership = join_partition.membership
       AND known.node IS NOT DISTINCT FROM join_partition.node THEN
        RETURN known.state;
    END IF;
    PERFORM enqueue('ib_partition', of_id);
    INSERT INTO ib_members AS m (partition, guid, owner, node, membership)
    VALUES (of_id, port, join_partition.owner, join_partition.node, join_partition.membership)
        ON CONFLICT ON CONSTRAINT ib_members_pkey DO UPDATE
       SET owner = excluded.owner, node = excluded.node, membership = excluded.membership, state = 'pending', reason = NULL,
           since = farrier.now(), seq = m.seq + 1
     WHERE m.owner = excluded.owner OR m.state = 'leaving'
    RETURNING m.state INTO answer;
    IF answer IS NULL THEN
        PERFORM refuse_other_owner(of_id, port);
    END IF;
    RETURN answer;
END $$;

-- Ends a membership: the member is `leaving` until UFM has removed it, and is then deleted. May be repeated, and succeeds for a
-- port that never was a member. FR400 for a malformed GUID, FR404 for an unknown partition, FR409 for a member of another owner.
CREATE OR REPLACE FUNCTION farrier.leave_partition(partition text, guid text, owner text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
#variable_conflict use_column
DECLARE
    port text := ib_guid(leave_partition.guid);
    of_id bigint;
    known ib_members;
BEGIN
    IF leave_partition.partition ~ '^[0-9]{1,18}$' THEN
        SELECT p.id INTO of_id FROM ib_partitions p WHERE p.id = leave_partition.partition::bigint;
    ELSE
        SELECT p.id INTO of_id FROM ib_partitions p WHERE p.name = leave_partition.partition AND p.ended_at IS NULL;
        IF of_id IS NULL AND EXISTS (SELECT FROM ib_partitions p WHERE p.name = leave_partition.partition AND p.ended_at IS NOT NULL) THEN
            RETURN;  -- a partition that has ended has no members
        END IF;
    END IF;
    IF of_id IS NULL THEN of_id := find_resource('ib_partition', leave_partition.partition); END IF;
    -- The first read takes no lock: a call that changes nothing should hold no lock until its transaction ends.
    SELECT m.* INTO known FROM ib_members m WHERE m.partition = of_id AND m.guid = port;
    IF NOT FOUND OR (known.state = 'leaving' AND known.owner = leave_partition.owner) THEN RETURN; END IF;
    SELECT m.* INTO known FROM ib_members m WHERE m.partition = of_id AND m.guid = port FOR NO KEY UPDATE;
    IF NOT FOUND OR (known.state = 'leaving' AND known.owner = leave_partition.owner) THEN RETURN; END IF;
    IF known.owner IS DISTINCT FROM leave_partition.owner THEN
        PERFORM refuse_other_owner(of_id, port);
    END IF;
    PERFORM enqueue('ib_partition', of_id);
    UPDATE ib_members m SET state = 'leaving', reason = NULL, since = farrier.now(), seq = m.seq + 1
     WHERE m.partition = of_id AND m.guid = port;
END $$;

-- Returns the members of a partition that has not ended, by its name or id; the members of all partitions for null.
CREATE OR REPLACE FUNCTION farrier.partition_members(partition text DEFAULT NULL)
    RETURNS TABLE (partition text, guid text, owner text, node text, membership text, state text, reason text, since timestamptz)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
    SELECT p.name, m.guid, m.owner, n.name, m.membership, m.state, m.reason, m.since
      FROM ib_members m JOIN ib_partitions p ON p.id = m.partition LEFT JOIN nodes n ON n.id = m.node
     WHERE $1 IS NULL OR p.id = (SELECT find_resource('ib_partition', $1))  -- a subquery, evaluated once and not for each member
     ORDER BY p.name, m.owner, m.guid;
$$;

-- Refuses a member of a partition that is being deleted or has ended (FR409).
CREATE OR REPLACE FUNCTION farrier.refuse_joining(of_id bigint) RETURNS void
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
DECLARE
    found record;
BEGIN
    SELECT p.name, p.state INTO found FROM ib_partitions p WHERE p.id = of_id;
    IF found.state IN ('deleting', 'gone') THEN
        RAISE EXCEPTION 'IB partition % is being deleted and takes no members', found.name
            USING ERRCODE = 'FR409', HINT = 'Its name and its number are free again once it is deleted.';
    END IF;
END $$;

-- Raises FR409 for a member that belongs to another owner.
CREATE OR REPLACE FUNCTION farrier.refuse_other_owner(of_id bigint, port text) RETURNS void
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
DECLARE
    found record;
BEGIN
    SELECT p.name, m.owner INTO found FROM ib_partitions p JOIN ib_members m ON m.partition = p.id WHERE p.id = of_id AND m.guid = port;
    RAISE EXCEPTION 'port % is already a member of IB partition %, of owner %', port, found.name, found.owner
        USING ERRCODE = 'FR409', HINT = 'Only this owner can end the membership.';
END $$;

-- Takes the number of a new partition from the pool of its site, or from pool `pkey` if the partition has no site.
-- BEFORE INSERT trigger on ib_partitions.
CREATE OR REPLACE FUNCTION farrier.take_pkey() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    IF NEW.mtu_limit NOT IN (2, 4) THEN
        RAISE EXCEPTION 'mtu_limit must be 2 or 4 (KiB); got %', NEW.mtu_limit USING ERRCODE = 'FR400';
    END IF;
    NEW.pkey := take_number(CASE WHEN NEW.site IS NULL THEN 'pkey' ELSE 'pkey:' || NEW.site END,
                            'ib_partition', NEW.id, NEW.pkey);
    RETURN NEW;
END $$;

-- Writes the partitions of a commit and the states of their members; the writer of kind ib_partition. Waits for no
-- client. A run is not written, and is due again in a second, while a client has locked the run's partition. The same
-- holds for a run that ends a partition, while a client has locked a member of that partition. In all other runs the
-- function leaves out members that a client has locked; the next run of the partition writes them. A run that deletes
-- a partition and has missed a member is due again at once. A partition that ends releases its number. Sections besides
-- those of write_resources: `marks` [{run, guid, seq, state, reason}], `left` [{run, guid, seq}].
CREATE OR REPLACE FUNCTION farrier.write_ib_partitions(changes jsonb) RETURNS TABLE (run bigint, due_in interval)
    LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    unwritten bigint[] := farrier.held_partitions(changes);
BEGIN
    IF cardinality(unwritten) > 0 THEN
        RETURN QUERY SELECT u, interval '1 second' FROM unnest(unwritten) u;
        changes := farrier.runs_without(changes, unwritten);
        IF jsonb_array_length(changes -> 'runs') = 0 THEN RETURN; END IF;
    END IF;
    unwritten := ARRAY(
        SELECT c.run FROM jsonb_to_recordset(changes -> 'resources') c (run bigint, state text, draining boolean)
         WHERE (c.state = 'gone' OR (c.state = 'deleting' AND NOT c.draining))
           AND EXISTS (SELECT FROM farrier.ib_members m WHERE m.partition = c.run AND m.state <> 'leaving'));
    IF cardinality(unwritten) > 0 THEN
        RETURN QUERY SELECT u, interval '0' FROM unnest(unwritten) u;
        changes := farrier.runs_without(changes, unwritten);
        IF jsonb_array_length(changes -> 'runs') = 0 THEN RETURN; END IF;
    END IF;
    unwritten := ARRAY(SELECT w.run FROM farrier.write_resources(changes) w);
    IF cardinality(unwritten) > 0 THEN
        RETURN QUERY SELECT u, interval '0' FROM unnest(unwritten) u;
        changes := farrier.runs_without(changes, unwritten);
    END IF;
    WITH free AS MATERIALIZED (
        SELECT m.partition, m.guid, c.state, c.reason
          FROM jsonb_to_recordset(changes -> 'marks') c (run bigint, guid text, seq bigint, state text, reason text)
          JOIN farrier.ib_members m ON m.partition = c.run AND m.guid = c.guid AND m.seq = c.seq
         ORDER BY m.partition, m.guid FOR NO KEY UPDATE OF m SKIP LOCKED)
    UPDATE farrier.ib_members m
       SET state = f.state, reason = f.reason, since = CASE WHEN m.state = f.state THEN m.since ELSE farrier.now() END
      FROM free f WHERE m.partition = f.partition AND m.guid = f.guid;
    WITH free AS MATERIALIZED (
        SELECT m.partition, m.guid FROM jsonb_to_recordset(changes -> 'left') c (run bigint, guid text, seq bigint)
          JOIN farrier.ib_members m ON m.partition = c.run AND m.guid = c.guid AND m.seq = c.seq AND m.state = 'leaving'
         ORDER BY m.partition, m.guid FOR UPDATE OF m SKIP LOCKED)
    DELETE FROM farrier.ib_members m USING free f WHERE m.partition = f.partition AND m.guid = f.guid;
    DELETE FROM farrier.ib_members m
     USING jsonb_to_recordset(changes -> 'resources') c (run bigint, state text) WHERE c.state = 'gone' AND m.partition = c.run;
    PERFORM farrier.free_numbers('ib_partition', c.run)
       FROM jsonb_to_recordset(changes -> 'resources') c (run bigint, state text) WHERE c.state = 'gone';
END $$;

-- =====================================================================================================================
-- Functions: networks
-- =====================================================================================================================

-- Records the InfiniBand ports that an agent reports when it enrolls, unless set_ib_ports has set them. Ignores a malformed report
-- and a report with a port of another node, because neither may keep the machine out of service. AFTER INSERT or UPDATE trigger on
-- node_agents.
CREATE OR REPLACE FUNCTION farrier.learn_ib_ports() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    reported text[];
BEGIN
    IF jsonb_typeof(NEW.facts -> 'ib_guids') <> 'array' THEN RETURN NULL; END IF;
    reported := ARRAY(SELECT DISTINCT right(lower(g), 16) FROM jsonb_array_elements_text(NEW.facts -> 'ib_guids') g
                       WHERE g ~* '\A(0x)?[0-9a-f]{16}\Z' ORDER BY 1);
    IF cardinality(reported) = 0 OR NOT are_guids(reported)
       OR EXISTS (SELECT FROM node_ib_ports p WHERE p.guids && reported AND p.node <> NEW.node_id) THEN
        RETURN NULL;
    END IF;
    INSERT INTO node_ib_ports AS p VALUES (NEW.node_id, reported, false)
        ON CONFLICT (node) DO UPDATE SET guids = excluded.guids WHERE NOT p.given;
    RETURN NULL;
END $$;

-- Takes all locks that use_networks needs, and waits for none: raises lock_not_available (55P03) if another transaction
-- has one. The calling commit has locked rows of nodes, and clients lock these rows in any order, so waiting could
-- deadlock. Called by write_nodes_and_networks.
CREATE OR REPLACE FUNCTION farrier.lock_networks(of_node bigint, segments text[], partitions text[]) RETURNS void
    LANGUAGE plpgsql AS $$
DECLARE
    lans bigint[] := ARRAY(
        SELECT s.id FROM farrier.network_segments s WHERE s.name = ANY (segments) AND s.ended_at IS NULL
        UNION SELECT a.segment FROM farrier.segment_addresses a WHERE a.node = of_node);
    fabrics bigint[] := ARRAY(
        SELECT p.id FROM farrier.ib_partitions p WHERE p.name = ANY (partitions) AND p.ended_at IS NULL
        UNION SELECT m.partition FROM farrier.ib_members m WHERE m.node = of_node);
    members bigint;
    got bigint;
BEGIN
    WITH used AS MATERIALIZED (
        SELECT FROM farrier.segment_usage u WHERE u.segment = ANY (lans) ORDER BY u.segment FOR NO KEY UPDATE SKIP LOCKED
    )
    SELECT count(*) FROM used INTO got;
    IF got < cardinality(lans) THEN
        RAISE EXCEPTION 'other transactions are changing segments or partitions that node % uses', of_node USING ERRCODE = 'lock_not_available';
    END IF;
    SELECT count(*) INTO members FROM farrier.ib_members m WHERE m.partition = ANY (fabrics)
       AND (m.node = of_node OR m.guid = ANY ((SELECT i.guids FROM farrier.node_ib_ports i WHERE i.node = of_node)::text[]));
    WITH held AS MATERIALIZED (
        SELECT FROM farrier.ib_members m WHERE m.partition = ANY (fabrics)
           AND (m.node = of_node OR m.guid = ANY ((SELECT i.guids FROM farrier.node_ib_ports i WHERE i.node = of_node)::text[]))
         ORDER BY m.partition, m.guid FOR NO KEY UPDATE SKIP LOCKED
    )
    SELECT count(*) INTO got FROM held;
    IF got < members THEN
        RAISE EXCEPTION 'other transactions are changing ports of node %', of_node USING ERRCODE = 'lock_not_available';
    END IF;
END $$;

-- Returns the segments and partitions that a node uses, with the addresses and memberships that it has, for its snapshot
-- (farrier.model.networks); null for a node that uses none. The language is PL/pgSQL because it caches the plan; an SQL
-- function does not.
CREATE OR REPLACE FUNCTION farrier.networks_of(of_node bigint, called text) RETURNS jsonb
    LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT jsonb_build_object(
        'segments', coalesce(jsonb_agg(jsonb_build_object(
            'name', u.name, 'state', s.state, 'site', s.site, 'mtu', s.mtu, 'vlan', s.vlan,
            'address', host(a.address), 'prefix_length', masklen(a.prefix), 'gateway', host(x.gateway),
            'free', s.id IS NOT NULL AND (
                EXISTS (SELECT FROM farrier.segment_free f WHERE f.segment = s.id)
                OR EXISTS (SELECT FROM farrier.segment_addresses b WHERE b.segment = s.id AND b.owner = called))
            ) ORDER BY u.name) FILTER (WHERE u.kind = 'network_segment'), '[]'),
        'partitions', coalesce(jsonb_agg(jsonb_build_object(
            'name', u.name, 'state', p.state, 'site', p.site, 'last_error', p.last_error, 'pkey', p.pkey,
            'ports', coalesce((SELECT jsonb_agg(jsonb_build_object('guid', m.guid, 'owner', m.owner, 'state', m.state, 'reason', m.reason,
                                                                   'ours', m.owner = called AND m.node IS NOT DISTINCT FROM of_node)
                                                ORDER BY m.guid)
                                 FROM farrier.ib_members m
                                WHERE m.partition = p.id
                                  AND (m.node = of_node OR m.guid = ANY ((SELECT i.guids FROM farrier.node_ib_ports i WHERE i.node = of_node)::text[]))), '[]')
            ) ORDER BY u.name) FILTER (WHERE u.kind = 'ib_partition'), '[]'))
      FROM farrier.node_uses u
      LEFT JOIN farrier.network_segments s ON u.kind = 'network_segment' AND s.name = u.name AND s.ended_at IS NULL
      LEFT JOIN LATERAL (SELECT b.* FROM farrier.segment_addresses b WHERE b.segment = s.id AND b.node = of_node AND b.owner = called
                          ORDER BY b.address LIMIT 1) a ON true
      LEFT JOIN farrier.segment_prefixes x ON x.segment = a.segment AND x.prefix = a.prefix
      LEFT JOIN farrier.ib_partitions p ON u.kind = 'ib_partition' AND p.name = u.name AND p.ended_at IS NULL
     WHERE u.node = of_node
    HAVING count(*) > 0);
END $$;

-- Sets the InfiniBand ports of a node, replacing the recorded ones, and enqueues the node; an empty array means that the node has
-- none. May be repeated. FR400 for malformed or too many GUIDs, FR404 for an unknown node, FR409 for a port of another node.
CREATE OR REPLACE FUNCTION farrier.set_ib_ports(node text, guids text[]) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
#variable_conflict use_column
DECLARE
    target bigint := find_node(set_ib_ports.node);
    ports text[] := ARRAY(SELECT DISTINCT ib_guid(g) FROM unnest(set_ib_ports.guids) g ORDER BY 1);
    holder text;
BEGIN
    IF set_ib_ports.guids IS NULL OR cardinality(ports) > 64 THEN
        RAISE EXCEPTION 'a node has 0 to 64 IB ports; got %', coalesce(cardinality(ports)::text, 'null')
            USING ERRCODE = 'FR400', HINT = 'Use an empty array for a node without ports.';
    END IF;
    holder := (SELECT n.name FROM node_ib_ports p JOIN nodes n ON n.id = p.node WHERE p.guids && ports AND p.node <> target LIMIT 1);
    IF holder IS NOT NULL THEN
        RAISE EXCEPTION 'node % already has one of these ports', holder
            USING ERRCODE = 'FR409', HINT = 'Correct the ports of that node first with farrier.set_ib_ports().';
    END IF;
    INSERT INTO node_ib_ports VALUES (target, ports, true)
        ON CONFLICT (node) DO UPDATE SET guids = excluded.guids, given = true;
    PERFORM enqueue('node', target);
END $$;

-- Makes a node that is not deployed use these segments and partitions, by name, and no others. Takes the addresses and memberships
-- that are available now, and releases those of segments and partitions that are not named or are being deleted. Raises no error for
-- what is not available: the node's next run reads what is missing, and why. May be repeated, because an owner has one address of a
-- segment. Called by follow_node and, after lock_networks, by write_nodes_and_networks.
CREATE OR REPLACE FUNCTION farrier.use_networks(of_node bigint, segments text[], partitions text[]) RETURNS void
    LANGUAGE plpgsql AS $$
DECLARE
    who text;
    at_site text;
    ports text[];
    one record;
BEGIN
    SELECT n.name, n.site, coalesce(p.guids, '{}') INTO who, at_site, ports
      FROM farrier.nodes n LEFT JOIN farrier.node_ib_ports p ON p.node = n.id WHERE n.id = of_node;
    DELETE FROM farrier.node_uses u
     WHERE u.node = of_node AND u.name <> ALL (CASE u.kind WHEN 'network_segment' THEN segments ELSE partitions END);
    INSERT INTO farrier.node_uses
    SELECT of_node, 'network_segment', w FROM unnest(segments) w UNION SELECT of_node, 'ib_partition', w FROM unnest(partitions) w
        ON CONFLICT DO NOTHING;

    FOR one IN SELECT a.segment, a.address FROM farrier.segment_addresses a JOIN farrier.network_segments s ON s.id = a.segment
                WHERE a.node = of_node AND a.owner = who
                  AND (s.name <> ALL (segments) OR s.state LIKE 'deleting/%')
                ORDER BY a.segment, a.address LOOP
        PERFORM farrier.release_address(one.segment::text, one.address, who);
    END LOOP;
    FOR one IN SELECT m.partition, m.guid FROM farrier.ib_members m JOIN farrier.ib_partitions p ON p.id = m.partition
                WHERE m.node = of_node AND m.owner = who AND m.state <> 'leaving'
                  AND (p.name <> ALL (partitions) OR m.guid <> ALL (ports) OR p.state = 'deleting')
                ORDER BY m.partition, m.guid LOOP
        PERFORM farrier.leave_partition(one.partition::text, one.guid, who);
    END LOOP;

    FOR one IN SELECT s.id FROM farrier.network_segments s JOIN farrier.segment_usage u ON u.segment = s.id AND u.open AND s.state = 'ready'
                WHERE s.name = ANY (segments) AND s.ended_at IS NULL AND s.site = at_site
                  AND NOT EXISTS (SELECT FROM farrier.segment_addresses a WHERE a.segment = s.id AND a.owner = who AND a.node = of_node)
                  AND (EXISTS (SELECT FROM farrier.segment_free f WHERE f.segment = s.id)
                       OR EXISTS (SELECT FROM farrier.segment_addresses a WHERE a.segment = s.id AND a.owner = who))
                ORDER BY s.id LOOP
        PERFORM farrier.allocate_address(one.id::text, who, NULL, of_node);
    END LOOP;
    FOR one IN SELECT p.id, g AS guid, coalesce(m.membership, 'full') AS membership
                 FROM farrier.ib_partitions p CROSS JOIN unnest(ports) g
                 LEFT JOIN farrier.ib_members m ON m.partition = p.id AND m.guid = g AND m.owner = who
                WHERE p.name = ANY (partitions) AND p.ended_at IS NULL AND p.site = at_site AND p.state <> 'deleting'
                  AND NOT EXISTS (SELECT FROM farrier.ib_members o WHERE o.partition = p.id AND o.guid = g AND o.state <> 'leaving'
                                     AND (o.owner <> who OR o.node = of_node))
                ORDER BY p.id, g LOOP
        PERFORM farrier.join_partition(one.id::text, one.guid, who, of_node, one.membership);
    END LOOP;
END $$;

-- Enqueues the nodes in onboarding with a port whose membership has ended, because the port may now join. AFTER DELETE trigger on
-- ib_members.
CREATE OR REPLACE FUNCTION farrier.wake_left() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    INSERT INTO wakes (kind, resource)
    SELECT DISTINCT 'node', n.id FROM was JOIN node_ib_ports p ON p.guids && ARRAY[was.guid] JOIN nodes n ON n.id = p.node
     WHERE n.live_workflow_kind = 'onboarding';
    RETURN NULL;
END $$;

-- Enqueues the nodes in onboarding when the membership of one of their ports changes. AFTER UPDATE trigger on ib_members.
CREATE OR REPLACE FUNCTION farrier.wake_members() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    INSERT INTO wakes (kind, resource)
    SELECT DISTINCT 'node', n.id FROM was JOIN became USING (partition, guid) JOIN nodes n ON n.id = became.node
     WHERE (was.state, was.reason) IS DISTINCT FROM (became.state, became.reason) AND became.state IN ('applied', 'refused')
       AND n.live_workflow_kind = 'onboarding';
    RETURN NULL;
END $$;

-- Enqueues the nodes in onboarding that use this segment or partition.
CREATE OR REPLACE FUNCTION farrier.wake_users(of_kind text, called text) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
    INSERT INTO wakes (kind, resource)
    SELECT 'node', n.id FROM node_uses u JOIN nodes n ON n.id = u.node
     WHERE u.kind = of_kind AND u.name = called AND n.live_workflow_kind = 'onboarding';
$$;

-- Enqueues the nodes in onboarding that use the row's segment or partition. Trigger function; the argument is the kind.
CREATE OR REPLACE FUNCTION farrier.wake_users_of_this() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    PERFORM wake_users(TG_ARGV[0], NEW.name);
    RETURN NULL;
END $$;

-- Writes the nodes of a commit, and which segments and partitions they use. The writer of kind node. Section `networks` [{run,
-- segments, partitions}] lists these uses; write_nodes describes the other sections. Each run that has or gets networks is written
-- in a subtransaction of its own. If a lock that it needs is taken, or if a segment or partition has changed, this run is due again
-- in a second; the other runs of the commit are not affected.
CREATE OR REPLACE FUNCTION farrier.write_nodes_and_networks(changes jsonb) RETURNS TABLE (run bigint, due_in interval)
    LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    users bigint[] := '{}';
    wish record;
    late interval;
    ours boolean;
BEGIN
    IF changes ? 'networks' THEN
        FOR wish IN
            SELECT c.* FROM jsonb_to_recordset(changes -> 'networks') c (run bigint, segments text[], partitions text[])
             WHERE c.segments <> '{}' OR c.partitions <> '{}' OR farrier.has_networks(c.run) ORDER BY c.run LOOP
            users := users || wish.run;
            late := NULL;
            ours := true;
            BEGIN
                PERFORM farrier.lock_networks(wish.run, wish.segments, wish.partitions);
                ours := false;
                SELECT w.due_in INTO late FROM farrier.write_nodes(farrier.filter_runs(changes, ARRAY[wish.run])) w;
                ours := true;
                IF late IS NULL THEN
                    PERFORM farrier.use_networks(wish.run, wish.segments, wish.partitions);
                END IF;
            EXCEPTION WHEN lock_not_available OR SQLSTATE 'FR404' OR SQLSTATE 'FR409' THEN
                IF NOT ours THEN RAISE; END IF;
                late := interval '1 second';
            END;
            IF late IS NOT NULL THEN RETURN QUERY SELECT wish.run, late; END IF;
        END LOOP;
    END IF;
    IF users <> '{}' THEN
        changes := farrier.runs_without(changes, users);
        IF jsonb_array_length(changes -> 'runs') = 0 THEN RETURN; END IF;
    END IF;
    RETURN QUERY SELECT w.run, w.due_in FROM farrier.write_nodes(changes) w;
END $$;

-- =====================================================================================================================
-- Views: time
-- =====================================================================================================================

-- Times in which neither farrier nor a client could write: the last hundred gaps between pulses, and the gap that has not ended,
-- because the first load after an outage may come before the first pulse.
CREATE OR REPLACE VIEW farrier.outages AS
(SELECT g.until - g.lasted AS began_at, g.until AS ended_at FROM farrier.pulse_gaps g ORDER BY g.until DESC LIMIT 100)
UNION ALL
SELECT p.at, farrier.now() FROM farrier.pulse p WHERE farrier.now() - p.at > interval '10 seconds';

-- =====================================================================================================================
-- Views: loop
-- =====================================================================================================================

-- Steps that may have called outside services and whose ends are not recorded: running steps, and steps that a crash ended.
CREATE OR REPLACE VIEW farrier.effects AS
SELECT m.kind, s.key::bigint AS resource, s.value ->> 'step' AS step, (s.value ->> 'begun_at')::timestamptz AS begun_at, m.controller
  FROM farrier.marks m CROSS JOIN LATERAL jsonb_each(m.steps) s;

-- The controller that runs the resources of each shard, and the time at which it had last run all due resources
-- (swept_at); both are null for a shard without a controller.
CREATE OR REPLACE VIEW farrier.shard_owners AS
SELECT s.kind, s.shard, s.epoch, c.id AS controller_id, c.name AS controller,
       c.renewed_at - coalesce(c.lags[array_position(c.kinds, s.kind)], 0) * interval '1 second' AS swept_at
  FROM farrier.shards s
  LEFT JOIN farrier.controllers c ON c.id = s.owner AND NOT c.expired;

-- =====================================================================================================================
-- Views: nodes
-- =====================================================================================================================

-- The workflows of nodes, of both kinds, ended ones included. substate is the stage of a running workflow, and empty
-- for any other. entered_at is when the clock of the stage began if the workflow is running, or else when the clock of
-- its status began. being_cancelled: its work is undone for good; a pause does not stop this.
CREATE OR REPLACE VIEW farrier.node_workflows AS
SELECT w.kind, w.id, w.node_id, w.mode, w.status, w.status_entered_at, w.stage, w.stage_entered_at, w.attempt, w.next_attempt_at,
       w.failure_class, w.failure_detail, w.after_undo, w.mode_given_at, w.created_at, w.ended_at,
       CASE w.status WHEN 'running' THEN coalesce(w.stage, '') ELSE '' END AS substate,
       CASE w.status WHEN 'running' THEN w.stage_entered_at ELSE w.status_entered_at END AS entered_at,
       w.skipped,
       w.status = 'compensating' AND w.after_undo IS DISTINCT FROM 'restart' AS being_cancelled
  FROM (SELECT 'onboarding' AS kind, o.id, o.node_id, o.mode, o.status, o.status_entered_at, o.stage, o.stage_entered_at, o.attempt,
               o.next_attempt_at, o.failure_class, o.failure_detail, o.after_undo, o.mode_given_at, o.created_at, o.ended_at, o.skipped
          FROM farrier.node_onboardings o
        UNION ALL
        SELECT 'decommission' AS kind, d.id, d.node_id, d.mode, d.status, d.status_entered_at, d.stage, d.stage_entered_at, d.attempt,
               d.next_attempt_at, d.failure_class, d.failure_detail, d.after_undo, d.mode_given_at, d.created_at, d.ended_at, d.skipped
          FROM farrier.node_decommissions d) w;

-- Each layer in table nodes with its state, and whether a pause stops its clock. A pause stops neither a deletion nor the end of
-- a cancelled workflow, but always the work on management.
CREATE OR REPLACE VIEW farrier.node_states AS
SELECT n.id AS node_id, 'node' AS kind, n.status AS state, n.status_entered_at AS since, n.site, n.model,
       n.paused IS NOT NULL AND NOT n.deleting
       AND (n.live_workflow_id IS NULL
            OR (SELECT w.being_cancelled FROM farrier.node_workflows w
                 WHERE w.kind = n.live_workflow_kind AND w.id = n.live_workflow_id) IS NOT TRUE) AS paused
  FROM farrier.nodes n
UNION ALL
SELECT n.id AS node_id, 'management' AS kind, n.management AS state, n.management_entered_at AS since, n.site, n.model,
       n.paused IS NOT NULL AS paused
  FROM farrier.nodes n
 WHERE n.status <> 'deleted';

-- The clocks of nodes that do not run now, by the conditions in clock_stops: the clock of a state of the node, of its
-- management or of its live workflow. A fact is read only if a condition needs it. Query it for one node, as (SELECT
-- true ... LIMIT 1) IS NULL: a plan for EXISTS may hash the facts of all nodes.
CREATE OR REPLACE VIEW farrier.still_clocks AS
SELECT n.id AS node_id, s.kind, s.state
  FROM farrier.nodes n CROSS JOIN farrier.clock_stops s
 WHERE s.value = CASE s.fact
           WHEN 'management' THEN n.management
           WHEN 'manage_asked' THEN (n.bmc ->> 'asked_at' IS NOT NULL)::text
           WHEN 'onboarding' THEN (SELECT o.status FROM farrier.node_onboardings o WHERE o.node_id = n.id ORDER BY o.id DESC LIMIT 1)
           WHEN 'has_mode' THEN coalesce((
                SELECT o.mode IS NOT NULL FROM farrier.node_onboardings o
                 WHERE n.live_workflow_kind = 'onboarding' AND o.id = n.live_workflow_id), true)::text
       END;

-- The running clocks of nodes that have a limit: one row for each layer, and one for a whole workflow (state
-- end_to_end). A limit of the site takes precedence over a limit of the model, and a limit of the model over the
-- general limit. above_since is when the clock exceeded its limit; null before.
CREATE OR REPLACE VIEW farrier.node_clocks AS
SELECT c.node_id, c.kind, c.state, c.substate, c.since, l.lasts AS state_limit,
       CASE WHEN c.since + l.lasts < farrier.now() THEN c.since + l.lasts END AS above_since
  FROM (SELECT s.node_id, s.kind, s.state, '' AS substate, s.since, s.site, s.model FROM farrier.node_states s
        UNION ALL
        SELECT n.id, w.kind, c.state, c.substate, c.since, n.site, n.model
          FROM farrier.nodes n
          JOIN farrier.node_workflows w ON w.kind = n.live_workflow_kind AND w.id = n.live_workflow_id
         CROSS JOIN LATERAL (VALUES
               (w.status, w.substate, w.entered_at),
               ('end_to_end', '', w.mode_given_at)) AS c (state, substate, since)) c
 CROSS JOIN LATERAL (
       SELECT x.lasts FROM farrier.limits x
        WHERE x.kind = c.kind AND x.state = c.state AND x.substate = c.substate
          AND (x.scope = '' OR x.scope = 'site' AND x.name = c.site OR x.scope = 'model' AND x.name = c.model)
        ORDER BY x.scope DESC LIMIT 1) l
 WHERE c.since IS NOT NULL
   AND ((c.kind, c.state) NOT IN (SELECT s.kind, s.state FROM farrier.clock_stops s)
        OR (SELECT true FROM farrier.still_clocks i WHERE i.node_id = c.node_id AND i.kind = c.kind AND i.state = c.state LIMIT 1) IS NULL);

-- One row for each node that is not deleted, for schedulers: its status, the clock of the status, and whether the node
-- is schedulable. It shows no workflow and no stage.
CREATE OR REPLACE VIEW farrier.node_inventory AS
SELECT n.id, n.name, n.site, n.model, n.labels, n.status, n.status_entered_at, n.management,
       n.status = 'active' AND n.paused IS NULL AS schedulable,
       n.management = 'unmanaged' AS unmanaged,
       n.paused ->> 'reason' AS paused,
       CASE WHEN n.status = 'quarantined' THEN n.quarantine ->> 'cause' END AS quarantine_cause,
       CASE WHEN n.status = 'quarantined' THEN n.quarantine ->> 'reason' END AS quarantine_reason,
       a.last_heartbeat_at, n.created_at,
       -- These are subqueries, so that a column that is not selected costs nothing.
       (SELECT c.state_limit FROM farrier.node_clocks c WHERE c.node_id = n.id AND c.kind = 'node') AS status_limit,
       (SELECT c.above_since FROM farrier.node_clocks c WHERE c.node_id = n.id AND c.kind = 'node') AS status_above_since,
       n.rack
  FROM farrier.nodes n LEFT JOIN farrier.node_agents a ON a.node_id = n.id
 WHERE n.status <> 'deleted';

-- One row for each node, deleted ones included, for operators: all layers with their clocks, the newest workflow, the recommended
-- action, the outcome of the last run, and the last reports of MAAS and the agent. power_at is the time of the last
-- stored reading of the power. While power_failure is null, the last reading may be later: an unchanged reading is
-- stored only every node.confirmed_every.
CREATE OR REPLACE VIEW farrier.node_lifecycle AS
SELECT n.id, n.name, n.status, n.status_entered_at,
       CASE WHEN n.status <> 'deleted' THEN n.management END AS management,
       CASE WHEN n.status <> 'deleted' THEN n.management_entered_at END AS management_entered_at,
       n.bmc_address, n.bmc ->> 'last_error' AS bmc_last_error, n.bmc ->> 'failure' AS bmc_failure, CASE WHEN n.bmc ? 'power_at' THEN n.bmc ->> 'power' END AS power,
       (n.bmc ->> 'power_at')::timestamptz AS power_at, CASE WHEN n.management = 'manageable' THEN n.bmc ->> 'sync_failure' END AS power_failure, n.bmc ->> 'desired_power' AS desired_power,
       w.kind AS workflow, w.id AS workflow_id, w.mode, w.status AS workflow_status, w.status_entered_at AS workflow_status_entered_at,
       w.stage, w.stage_entered_at, w.attempt, w.next_attempt_at, w.failure_class, w.failure_detail,
       coalesce(adv.action, qa.action, ba.action,
           CASE WHEN n.management = 'manageable' AND n.bmc ? 'enforce_error' AND n.bmc ->> 'desired_power' <> n.bmc ->> 'power'
             THEN 'switch the machine ' || (n.bmc ->> 'desired_power') || ' by hand or through its BMC, or submit set_power without enforce'
           END) AS recommended_action,
       o.outcome AS last_outcome, o.at AS last_outcome_at, so.controller, so.swept_at,
       n.paused, n.quarantine, n.version,
       n.maas_id, m.state AS maas_state, m.detail ->> 'status_name' AS maas_status_name, m.read_at AS maas_read_at,
       sc.state_limit AS status_limit, sc.above_since AS status_above_since,
       mc.state_limit AS management_limit, mc.above_since AS management_above_since,
       wc.state_limit AS workflow_limit, wc.above_since AS workflow_above_since,
       ec.since AS end_to_end_since, ec.state_limit AS end_to_end_limit, ec.above_since AS end_to_end_above_since,
       a.last_heartbeat_at, a.health -> 'alerts' AS health_alerts, a.enrolled_at
  FROM farrier.nodes n
  LEFT JOIN LATERAL (
       SELECT x.kind, x.id, x.mode, x.status, x.status_entered_at, x.stage, x.stage_entered_at,
              x.attempt, x.next_attempt_at, x.failure_class, x.failure_detail
         FROM farrier.node_workflows x WHERE x.node_id = n.id ORDER BY x.created_at DESC, x.id DESC LIMIT 1) w ON true
  LEFT JOIN farrier.advice adv ON adv.failure = w.failure_class AND w.status = ANY (ARRAY(SELECT x.status FROM farrier.workflow_statuses x WHERE x.failed))
  LEFT JOIN farrier.advice qa ON n.status = 'quarantined' AND qa.failure = 'quarantine:' || (n.quarantine ->> 'cause')
  LEFT JOIN farrier.advice ba ON ba.failure = 'bmc:' || coalesce(
       n.bmc ->> 'failure', CASE WHEN n.management = 'manageable' THEN n.bmc ->> 'sync_failure' END)
  LEFT JOIN farrier.outcomes o ON o.kind = 'node' AND o.id = n.id
  LEFT JOIN farrier.shard_owners so ON n.status <> 'deleted' AND so.kind = 'node' AND so.shard = farrier.shard_of(n.id)
  LEFT JOIN farrier.node_observations m ON m.node_id = n.id AND m.source = 'maas' AND m.system_id = n.maas_id
  LEFT JOIN farrier.node_agents a ON a.node_id = n.id
  LEFT JOIN farrier.node_clocks sc ON sc.node_id = n.id AND sc.kind = 'node'
  LEFT JOIN farrier.node_clocks mc ON mc.node_id = n.id AND mc.kind = 'management'
  LEFT JOIN farrier.node_clocks wc ON wc.node_id = n.id AND wc.kind = n.live_workflow_kind AND wc.state <> 'end_to_end'
  LEFT JOIN farrier.node_clocks ec ON ec.node_id = n.id AND ec.kind = n.live_workflow_kind AND ec.state = 'end_to_end';

-- =====================================================================================================================
-- Views: intents
-- =====================================================================================================================

-- The intents of resources of every kind. Intents of nodes have a table of their own, because other services use it.
CREATE OR REPLACE VIEW farrier.all_intents AS
SELECT 'node' AS kind, i.id, i.node_id AS resource_id, i.action, i.requested_by, i.status, i.created_at, i.reason, i.answered_at,
       i.node AS resource, i.params, i.idempotency_key
  FROM farrier.intents i
UNION ALL
SELECT i.kind, i.id, i.resource_id, i.action, i.requested_by, i.status, i.created_at, i.reason, i.answered_at,
       i.resource, i.params, i.idempotency_key
  FROM farrier.resource_intents i;

-- =====================================================================================================================
-- Views: brakes
-- =====================================================================================================================

-- Departures that count now: nodes that left service within brake_window, and held nodes that tried to leave within three times
-- brake_retry. A held node that has recovered does not try again, so it soon stops counting.
CREATE OR REPLACE VIEW farrier.departing AS
SELECT d.site, d.node, d.at, d.held
  FROM farrier.departures d
 CROSS JOIN farrier.settings s
 CROSS JOIN farrier.constants c
 WHERE d.at > farrier.now() - CASE WHEN d.held THEN 3 * c.brake_retry ELSE s.brake_window END;

-- Sites whose brake now holds nodes in service: since when (since), how many it holds (held), how many leave service or are held
-- (leaving), and how many are in service (in_service).
CREATE OR REPLACE VIEW farrier.brakes_holding AS
SELECT b.site, b.since, d.held, d.leaving, b.in_service
  FROM farrier.brakes b
 CROSS JOIN LATERAL (
       SELECT count(*) FILTER (WHERE x.held) AS held, count(*) AS leaving
         FROM farrier.departing x
        WHERE x.site = b.site) d
 WHERE d.held > 0
   AND NOT coalesce((SELECT l.until > farrier.now() FROM farrier.brake_lifts l WHERE l.site = b.site ORDER BY l.id DESC LIMIT 1), false);

-- =====================================================================================================================
-- Views: maas
-- =====================================================================================================================

-- Nodes whose machine a workflow is changing in MAAS, and when its stage or status last changed (began_at): the stage waits for a
-- reading after that time.
CREATE OR REPLACE VIEW farrier.maas_motion AS
SELECT n.id AS node_id, n.site, n.maas_id AS system_id, greatest(w.stage_entered_at, w.status_entered_at) AS began_at
  FROM farrier.node_workflows w
  JOIN farrier.nodes n ON n.id = w.node_id AND n.live_workflow_kind = w.kind AND n.live_workflow_id = w.id
 WHERE w.ended_at IS NULL AND w.status = ANY (ARRAY(SELECT s.status FROM farrier.workflow_statuses s WHERE s.at_work))
   AND w.mode = ANY (ARRAY(SELECT m.mode FROM farrier.workflow_modes m WHERE m.uses_maas)) AND n.maas_id IS NOT NULL;

-- =====================================================================================================================
-- Triggers: loop
-- =====================================================================================================================

-- Fires only for an outcome with an error: most outcomes have none, and need no call.
CREATE OR REPLACE TRIGGER note_error BEFORE INSERT OR UPDATE ON farrier.outcomes
    FOR EACH ROW WHEN (NEW.outcome ->> 'error' IS NOT NULL) EXECUTE FUNCTION farrier.note_error();
-- Fires also in sessions that load data without guards (session_replication_role), because it derives a column and
-- guards nothing.
ALTER TABLE farrier.outcomes ENABLE ALWAYS TRIGGER note_error;

CREATE OR REPLACE TRIGGER notify_wakes AFTER INSERT ON farrier.wakes
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION farrier.notify_wakes();

-- =====================================================================================================================
-- Triggers: nodes
-- =====================================================================================================================

CREATE OR REPLACE TRIGGER begin_resource BEFORE INSERT ON farrier.nodes
    FOR EACH ROW EXECUTE FUNCTION farrier.begin_resource('node');

-- Fires at COMMIT, because the workflow's row is written by then. Fires only for updates that could break the pair. If
-- the node names no workflow before and after, only its status can be wrong, and the condition checks the status at
-- once.
CREATE CONSTRAINT TRIGGER check_pair AFTER UPDATE ON farrier.nodes
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (OLD.live_workflow_id IS DISTINCT FROM NEW.live_workflow_id OR OLD.live_workflow_kind IS DISTINCT FROM NEW.live_workflow_kind
          OR OLD.status <> NEW.status AND (NEW.live_workflow_kind IS NOT NULL OR NOT farrier.may_have_no_workflow(NEW.status)))
    EXECUTE FUNCTION farrier.check_node_pair();

-- Fires at COMMIT, because the workflow's row is written by then. Separate from check_pair, because the condition of a
-- trigger for INSERT cannot refer to OLD.
CREATE CONSTRAINT TRIGGER check_pair_insert AFTER INSERT ON farrier.nodes
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION farrier.check_node_pair();

-- Separate from follow_node, because the condition of a trigger for INSERT cannot refer to OLD.
CREATE OR REPLACE TRIGGER follow_new_node AFTER INSERT ON farrier.nodes FOR EACH ROW EXECUTE FUNCTION farrier.follow_node();

-- Fires only for a change of a column that other tables depend on. Every reading of the BMC changes bmc, and then the function
-- compares the parts.
CREATE OR REPLACE TRIGGER follow_node AFTER UPDATE ON farrier.nodes
    FOR EACH ROW WHEN (OLD.bmc IS DISTINCT FROM NEW.bmc OR OLD.bmc_address IS DISTINCT FROM NEW.bmc_address
          OR OLD.maas_id IS DISTINCT FROM NEW.maas_id OR OLD.site IS DISTINCT FROM NEW.site OR OLD.status <> NEW.status AND NEW.status = 'deleted')
    EXECUTE FUNCTION farrier.follow_node();

-- Fires only in the update that deletes the node. Fires at COMMIT, because the commit that deletes the node responds to
-- its intents and ends its tasks after it has written the node.
CREATE CONSTRAINT TRIGGER forget_keys AFTER UPDATE ON farrier.nodes
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.status = 'deleted' AND OLD.status <> 'deleted') EXECUTE FUNCTION farrier.forget_keys();

-- Fires for every update of a deleted node, so that no update restores the cleared columns. Fires before place_bmc,
-- which sorts after it by name and derives bmc_endpoint from the address.
CREATE OR REPLACE TRIGGER forget_machine BEFORE UPDATE ON farrier.nodes
    FOR EACH ROW WHEN (NEW.status = 'deleted') EXECUTE FUNCTION farrier.forget_machine();

-- Fires only for a change without an edge, so that a change along an edge needs no call. See refuse_edge.
CREATE OR REPLACE TRIGGER guard_management AFTER UPDATE ON farrier.nodes
    FOR EACH ROW WHEN (OLD.management <> NEW.management AND NOT farrier.is_edge('node', 'management', OLD.management, NEW.management))
    EXECUTE FUNCTION farrier.refuse_edge('node', 'management', 'management');

-- Fires only for a change without an edge, so that a change along an edge needs no call. See refuse_edge.
CREATE OR REPLACE TRIGGER guard_status AFTER UPDATE ON farrier.nodes
    FOR EACH ROW WHEN (OLD.status <> NEW.status AND NOT farrier.is_edge('node', 'status', OLD.status, NEW.status))
    EXECUTE FUNCTION farrier.refuse_edge('node', 'status', 'status');

-- Fires only for a node whose address changes: other updates need no call.
CREATE OR REPLACE TRIGGER place_bmc BEFORE UPDATE ON farrier.nodes
    FOR EACH ROW WHEN (OLD.bmc_address IS DISTINCT FROM NEW.bmc_address) EXECUTE FUNCTION farrier.place_bmc();

-- Separate from place_bmc, because the condition of a trigger for INSERT cannot refer to OLD.
CREATE OR REPLACE TRIGGER place_bmc_insert BEFORE INSERT ON farrier.nodes
    FOR EACH ROW WHEN (NEW.bmc_address IS NOT NULL) EXECUTE FUNCTION farrier.place_bmc();

-- =====================================================================================================================
-- Triggers: workflows
-- =====================================================================================================================

CREATE OR REPLACE TRIGGER begin_resource BEFORE INSERT ON farrier.node_decommissions
    FOR EACH ROW EXECUTE FUNCTION farrier.begin_resource('node', 'decommission', 'status');

-- Fires at COMMIT, because the node's row is written by then, and only for a change of the workflow's status.
CREATE CONSTRAINT TRIGGER check_pair AFTER UPDATE ON farrier.node_decommissions
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (OLD.status <> NEW.status)
    EXECUTE FUNCTION farrier.check_workflow_pair('decommission');

-- Fires at COMMIT, because the node's row is written by then. Separate from check_pair, because the condition of a
-- trigger for DELETE cannot refer to NEW.
CREATE CONSTRAINT TRIGGER check_pair_delete AFTER DELETE ON farrier.node_decommissions
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION farrier.check_workflow_pair('decommission');

-- Fires at COMMIT, because the node's row is written by then. Separate from check_pair, because the condition of a
-- trigger for INSERT cannot refer to OLD.
CREATE CONSTRAINT TRIGGER check_pair_insert AFTER INSERT ON farrier.node_decommissions
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION farrier.check_workflow_pair('decommission');

-- Fires only for a change without an edge, so that a change along an edge needs no call. See refuse_edge.
CREATE OR REPLACE TRIGGER guard_status AFTER UPDATE ON farrier.node_decommissions
    FOR EACH ROW WHEN (OLD.status <> NEW.status AND NOT farrier.is_edge('node', 'decommission', OLD.status, NEW.status))
    EXECUTE FUNCTION farrier.refuse_edge('node', 'decommission', 'status');

CREATE OR REPLACE TRIGGER set_ended_at BEFORE INSERT OR UPDATE OF status, ended_at ON farrier.node_decommissions
    FOR EACH ROW EXECUTE FUNCTION farrier.set_ended_at();
-- Fires also in sessions that load data without guards (session_replication_role): queries rely on ended_at.
ALTER TABLE farrier.node_decommissions ENABLE ALWAYS TRIGGER set_ended_at;

CREATE OR REPLACE TRIGGER begin_resource BEFORE INSERT ON farrier.node_onboardings
    FOR EACH ROW EXECUTE FUNCTION farrier.begin_resource('node', 'onboarding', 'status');

-- Fires at COMMIT, because the node's row is written by then, and only for a change of the workflow's status.
CREATE CONSTRAINT TRIGGER check_pair AFTER UPDATE ON farrier.node_onboardings
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (OLD.status <> NEW.status)
    EXECUTE FUNCTION farrier.check_workflow_pair('onboarding');

-- Fires at COMMIT, because the node's row is written by then. Separate from check_pair, because the condition of a
-- trigger for DELETE cannot refer to NEW.
CREATE CONSTRAINT TRIGGER check_pair_delete AFTER DELETE ON farrier.node_onboardings
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION farrier.check_workflow_pair('onboarding');

-- Fires at COMMIT, because the node's row is written by then. Separate from check_pair, because the condition of a
-- trigger for INSERT cannot refer to OLD.
CREATE CONSTRAINT TRIGGER check_pair_insert AFTER INSERT ON farrier.node_onboardings
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION farrier.check_workflow_pair('onboarding');

-- Fires only for a change without an edge, so that a change along an edge needs no call. See refuse_edge.
CREATE OR REPLACE TRIGGER guard_status AFTER UPDATE ON farrier.node_onboardings
    FOR EACH ROW WHEN (OLD.status <> NEW.status AND NOT farrier.is_edge('node', 'onboarding', OLD.status, NEW.status))
    EXECUTE FUNCTION farrier.refuse_edge('node', 'onboarding', 'status');

CREATE OR REPLACE TRIGGER set_ended_at BEFORE INSERT OR UPDATE OF status, ended_at ON farrier.node_onboardings
    FOR EACH ROW EXECUTE FUNCTION farrier.set_ended_at();
-- Fires also in sessions that load data without guards (session_replication_role): queries rely on ended_at.
ALTER TABLE farrier.node_onboardings ENABLE ALWAYS TRIGGER set_ended_at;

-- =====================================================================================================================
-- Triggers: agents
-- =====================================================================================================================

-- Fires only if the agent reports ports, including when it enrolls again.
CREATE OR REPLACE TRIGGER learn_ib_ports AFTER INSERT OR UPDATE OF facts ON farrier.node_agents
    FOR EACH ROW WHEN (NEW.facts ? 'ib_guids') EXECUTE FUNCTION farrier.learn_ib_ports();

-- =====================================================================================================================
-- Triggers: intents
-- =====================================================================================================================

CREATE OR REPLACE TRIGGER validate BEFORE INSERT ON farrier.intents FOR EACH ROW EXECUTE FUNCTION farrier.validate_intent();

-- Fires after validate, which sorts before it by name and has checked the types of the parameters.
CREATE OR REPLACE TRIGGER validate_set BEFORE INSERT ON farrier.intents
    FOR EACH ROW WHEN (NEW.action = 'set') EXECUTE FUNCTION farrier.validate_set();

CREATE OR REPLACE TRIGGER wake AFTER INSERT ON farrier.intents
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION farrier.wake_for_intents();

-- =====================================================================================================================
-- Triggers: kinds
-- =====================================================================================================================

CREATE OR REPLACE TRIGGER holds_no_rows BEFORE INSERT ON farrier.resources
    FOR EACH ROW EXECUTE FUNCTION farrier.refuse_template_row();

-- =====================================================================================================================
-- Triggers: requests
-- =====================================================================================================================

-- Fires only in the update that records the response to the intent.
CREATE OR REPLACE TRIGGER notify_answered AFTER UPDATE ON farrier.resource_intents
    FOR EACH ROW WHEN (OLD.status = 'pending' AND NEW.status <> 'pending') EXECUTE FUNCTION farrier.notify_resource_intent_answered();

CREATE OR REPLACE TRIGGER validate BEFORE INSERT ON farrier.resource_intents
    FOR EACH ROW EXECUTE FUNCTION farrier.validate_resource_intent();

CREATE OR REPLACE TRIGGER wake AFTER INSERT ON farrier.resource_intents
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION farrier.wake_for_resource_intents();

-- =====================================================================================================================
-- Triggers: numbers
-- =====================================================================================================================

-- Fires only for the pools of partition keys.
CREATE OR REPLACE TRIGGER check_pkey_pool BEFORE INSERT OR UPDATE ON farrier.number_pools FOR EACH ROW
    WHEN (NEW.pool = 'pkey' OR starts_with(NEW.pool, 'pkey:')) EXECUTE FUNCTION farrier.check_pkey_pool();

-- =====================================================================================================================
-- Triggers: segments
-- =====================================================================================================================

-- Fires only for a change of the segment's state.
CREATE OR REPLACE TRIGGER follow_segment AFTER UPDATE ON farrier.network_segments
    FOR EACH ROW WHEN (OLD.state <> NEW.state) EXECUTE FUNCTION farrier.follow_segment();

-- Fires only for a segment whose prefixes or gateways change. Separate from open_prefixes, because the condition of a
-- trigger for INSERT cannot refer to OLD.
CREATE OR REPLACE TRIGGER open_more_prefixes AFTER UPDATE ON farrier.network_segments
    FOR EACH ROW WHEN (OLD.prefixes <> NEW.prefixes OR OLD.gateways <> NEW.gateways) EXECUTE FUNCTION farrier.open_prefixes();

CREATE OR REPLACE TRIGGER open_prefixes AFTER INSERT ON farrier.network_segments
    FOR EACH ROW EXECUTE FUNCTION farrier.open_prefixes();

-- Fires only for a change of the checked columns. Separate from prepare_segment, because the condition of a trigger for
-- INSERT cannot refer to OLD.
CREATE OR REPLACE TRIGGER prepare_change BEFORE UPDATE ON farrier.network_segments
    FOR EACH ROW WHEN (OLD.prefixes <> NEW.prefixes OR OLD.gateways <> NEW.gateways OR OLD.mtu <> NEW.mtu) EXECUTE FUNCTION farrier.prepare_segment();

CREATE OR REPLACE TRIGGER prepare_segment BEFORE INSERT ON farrier.network_segments
    FOR EACH ROW EXECUTE FUNCTION farrier.prepare_segment();

CREATE OR REPLACE TRIGGER wake_users AFTER UPDATE ON farrier.network_segments
    FOR EACH ROW WHEN ((NEW.state, NEW.prefixes) IS DISTINCT FROM (OLD.state, OLD.prefixes))
    EXECUTE FUNCTION farrier.wake_users_of_this('network_segment');

-- Fires only for a release, and at COMMIT, when other transactions can see the release.
CREATE CONSTRAINT TRIGGER mark_release AFTER UPDATE ON farrier.segment_usage
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.allocated < OLD.allocated) EXECUTE FUNCTION farrier.mark_release();

-- =====================================================================================================================
-- Triggers: partitions
-- =====================================================================================================================

-- Fires at COMMIT, so that the partition's row is locked only briefly. Fires only for a new request of a client for the
-- member (seq): states that the loop records, and members that leave, need no admission.
CREATE CONSTRAINT TRIGGER admit_again AFTER UPDATE ON farrier.ib_members
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.seq <> OLD.seq AND NEW.state <> 'leaving')
    EXECUTE FUNCTION farrier.admit_member();

-- Fires at COMMIT, so that the partition's row is locked only briefly.
CREATE CONSTRAINT TRIGGER admit_new AFTER INSERT ON farrier.ib_members
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION farrier.admit_member();

CREATE OR REPLACE TRIGGER wake_left AFTER DELETE ON farrier.ib_members
    REFERENCING OLD TABLE AS was FOR EACH STATEMENT EXECUTE FUNCTION farrier.wake_left();

CREATE OR REPLACE TRIGGER wake_members AFTER UPDATE ON farrier.ib_members
    REFERENCING OLD TABLE AS was NEW TABLE AS became FOR EACH STATEMENT EXECUTE FUNCTION farrier.wake_members();

CREATE OR REPLACE TRIGGER take_pkey BEFORE INSERT ON farrier.ib_partitions FOR EACH ROW EXECUTE FUNCTION farrier.take_pkey();

CREATE OR REPLACE TRIGGER wake_users AFTER INSERT ON farrier.ib_partitions
    FOR EACH ROW EXECUTE FUNCTION farrier.wake_users_of_this('ib_partition');

CREATE OR REPLACE TRIGGER wake_users_of_change AFTER UPDATE ON farrier.ib_partitions
    FOR EACH ROW WHEN (NEW.state <> OLD.state OR NEW.pkey <> OLD.pkey OR NEW.last_error IS DISTINCT FROM OLD.last_error)
    EXECUTE FUNCTION farrier.wake_users_of_this('ib_partition');

-- =====================================================================================================================
-- Rights: 0_public
-- =====================================================================================================================

-- PUBLIC has no rights on tables, views and functions of farrier; on types it has USAGE, which the server grants by default. Each
-- role of farrier may use the schema, the clock and the version of the API. Every migration executes the files of this
-- directory, and revokes the rights that the previous set granted and the new set does not grant; rights that an
-- operator granted stay. ALL FUNCTIONS and ALL TABLES mean those of farrier.
REVOKE ALL ON ALL TABLES IN SCHEMA farrier FROM PUBLIC;
REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA farrier FROM PUBLIC;
GRANT USAGE ON SCHEMA farrier TO farrier_controller, farrier_intents, farrier_agent, farrier_worker, farrier_reader;
GRANT EXECUTE ON FUNCTION farrier.now, farrier.api_version
    TO farrier_controller, farrier_intents, farrier_agent, farrier_worker, farrier_reader;

-- =====================================================================================================================
-- Rights: farrier_agent
-- =====================================================================================================================

-- Agents on nodes. An agent authenticates with its key, and reads only the tasks of its own node.
GRANT EXECUTE ON FUNCTION
    farrier.enroll_agent, farrier.heartbeat, farrier.claim_task, farrier.renew_task, farrier.finish_task
    TO farrier_agent;

-- =====================================================================================================================
-- Rights: farrier_controller
-- =====================================================================================================================

-- The daemon. It writes the decisions of its runs, and only reads the model, the records of the schema, and history.
GRANT SELECT, INSERT, UPDATE, DELETE ON
    farrier.mends, farrier.pulse, farrier.limits,
    farrier.controllers, farrier.marks, farrier.outcomes,
    farrier.nodes, farrier.node_macs, farrier.node_onboardings, farrier.node_decommissions,
    farrier.bootstrap_tokens, farrier.node_agents, farrier.node_tasks, farrier.intents,
    farrier.maas_regions, farrier.node_observations,
    farrier.departures, farrier.brakes, farrier.brake_lifts,
    farrier.resources, farrier.resource_intents, farrier.number_pools, farrier.pool_numbers, farrier.freed_numbers,
    farrier.network_segments, farrier.segment_usage, farrier.segment_prefixes, farrier.segment_free, farrier.segment_addresses,
    farrier.ib_partitions, farrier.ib_members, farrier.node_uses, farrier.node_ib_ports
    TO farrier_controller;
GRANT SELECT, DELETE ON farrier.wakes TO farrier_controller;
GRANT SELECT, UPDATE ON farrier.shards TO farrier_controller;
GRANT SELECT, UPDATE ON farrier.settings TO farrier_controller;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA farrier TO farrier_controller;
GRANT SELECT ON
    farrier.migrator, farrier.schema_steps, farrier.schema_set, farrier.schema_objects,
    farrier.edges, farrier.workflow_mapping, farrier.workflow_statuses, farrier.workflow_modes, farrier.clock_stops, farrier.contradictions,
    farrier.constants, farrier.actions, farrier.advice, farrier.task_types,
    farrier.kinds, farrier.kind_layers, farrier.kind_states, farrier.kind_actions, farrier.callable,
    farrier.locks, farrier.history, farrier.history_retention,
    farrier.node_bmcs, farrier.node_identities, farrier.bmc_logins, farrier.workers,
    farrier.pulse_gaps, farrier.outages, farrier.departing, farrier.brakes_holding, farrier.still_clocks, farrier.maas_motion, farrier.node_clocks, farrier.node_states, farrier.node_workflows,
    farrier.all_intents, farrier.node_inventory, farrier.node_lifecycle, farrier.shard_owners, farrier.effects
    TO farrier_controller;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA farrier TO farrier_controller;
REVOKE EXECUTE ON FUNCTION farrier.grant_rights, farrier.grant_kind_rights, farrier.let_call, farrier.make_kind, farrier.forget_kind,
    farrier.grant_worker, farrier.revoke_worker
    FROM farrier_controller CASCADE;

-- =====================================================================================================================
-- Rights: farrier_intents
-- =====================================================================================================================

-- Services and people that register nodes and submit intents.
GRANT INSERT (node, action, params, idempotency_key, requested_by, api_version) ON farrier.intents TO farrier_intents;
GRANT INSERT (kind, resource, action, params, idempotency_key, requested_by) ON farrier.resource_intents TO farrier_intents;
GRANT SELECT ON
    farrier.intents, farrier.all_intents, farrier.node_inventory, farrier.node_lifecycle, farrier.node_clocks, farrier.brakes_holding,
    farrier.resource_intents, farrier.kinds, farrier.kind_layers, farrier.kind_states, farrier.kind_actions
    TO farrier_intents;
GRANT EXECUTE ON FUNCTION
    farrier.register_node, farrier.issue_bootstrap, farrier.revoke_bootstrap, farrier.bootstrap_token, farrier.set_ib_ports,
    farrier.intent, farrier.enqueue, farrier.lift_brake,
    farrier.resource_intent, farrier.list_resources, farrier.show_resources, farrier.any_resource, farrier.resource_names,
    farrier.count_resources, farrier.count_states, farrier.late_resources,
    farrier.list_addresses, farrier.allocate_address, farrier.release_address,
    farrier.partition_members, farrier.join_partition, farrier.leave_partition, farrier.shard_of
    TO farrier_intents;

-- =====================================================================================================================
-- Rights: farrier_reader
-- =====================================================================================================================

-- Dashboards and operators: they read everything except secrets and the tokens of tasks.
GRANT SELECT ON
    farrier.node_inventory, farrier.node_lifecycle, farrier.node_clocks, farrier.node_states, farrier.still_clocks, farrier.brakes_holding,
    farrier.nodes, farrier.node_macs, farrier.node_onboardings, farrier.node_decommissions, farrier.node_workflows, farrier.node_observations, farrier.maas_regions,
    farrier.intents, farrier.all_intents, farrier.history, farrier.outcomes, farrier.controllers, farrier.shards, farrier.shard_owners, farrier.wakes, farrier.effects, farrier.workers, farrier.departures, farrier.departing, farrier.brake_lifts,
    farrier.limits, farrier.edges, farrier.workflow_statuses, farrier.clock_stops, farrier.actions, farrier.advice,
    farrier.kinds, farrier.kind_layers, farrier.kind_states, farrier.kind_actions, farrier.resource_intents, farrier.number_pools, farrier.pool_numbers
    TO farrier_reader;
GRANT SELECT (
    id, node_id, workflow_id, type, status, params, attempt, failures, claimed_by, lease_until, result, created_at, dispatched_at, ended_at
    ) ON farrier.node_tasks TO farrier_reader;
GRANT EXECUTE ON FUNCTION
    farrier.list_resources, farrier.show_resources, farrier.any_resource, farrier.resource_names,
    farrier.count_resources, farrier.count_states, farrier.late_resources,
    farrier.columns_of, farrier.selected_nodes, farrier.late_clocks, farrier.text_array, farrier.list_addresses, farrier.partition_members, farrier.node_facts, farrier.same_machine, farrier.shard_of
    TO farrier_reader;

-- =====================================================================================================================
-- Rights: farrier_worker
-- =====================================================================================================================

-- Workers, which execute tasks of several nodes. Each login may claim the tasks for which farrier.grant_worker granted
-- it the right.
GRANT EXECUTE ON FUNCTION farrier.claim_work, farrier.renew_work, farrier.finish_work TO farrier_worker;

COMMIT;
