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
    commit_id             uuid,                                -- the last commit of a run that wrote the row; null: no commit. See
                                                               -- settle_runs
    status                text        NOT NULL,                -- coarse lifecycle (farrier.model.node.layers); edges are in
                                                               -- farrier.edges
    status_entered_at     timestamptz NOT NULL DEFAULT farrier.now(),  -- when the node entered this status
    management            text        NOT NULL,                -- whether the BMC may be used (farrier.model.node.layers); edges
                                                               -- are in farrier.edges
    management_entered_at timestamptz NOT NULL DEFAULT farrier.now(),  -- when the node entered this management state
    bmc_address           text,                                -- https URL or host[:port] of the BMC
    bmc_endpoint          text COLLATE "C",                    -- host and port of bmc_address; set by a trigger
    bmc_credential        text,                                -- a reference such as file:/run/creds/bmc-1, never a secret
    bmc                   jsonb       NOT NULL DEFAULT '{}',   -- results of access to the BMC (farrier.model.node.snapshot.Bmc)
    -- These columns are generated, because every reading of power would update an index on an expression over bmc. An
    -- index on these columns changes only when their values change.
    power                 text        GENERATED ALWAYS AS (bmc ->> 'power') STORED,
                                                               -- power of the last reading, on or off; null: unknown
    sync_failure          text        GENERATED ALWAYS AS (bmc ->> 'sync_failure') STORED,
                                                               -- failure class of the last regular reading
                                                               -- (farrier.model.machine.bmc.BmcFailure); null: no failure
    paused                jsonb,                               -- {reason, at}: an operator has paused the node: it is observed and
                                                               -- not changed; null: not paused
    ever_onboarded        boolean     NOT NULL DEFAULT false,  -- an onboarding of this node has ended as completed or reconciled
    ever_active           boolean     NOT NULL DEFAULT false,  -- the node has been in service: `delete` is refused;
                                                               -- `decommission` or `remove` ends the node
    deleting              boolean     NOT NULL DEFAULT false,  -- an intent `delete` was accepted, and the node is not deleted yet
    redeploying           boolean     NOT NULL DEFAULT false,  -- a reimage has ended, and the onboarding after it has not begun
    cleaned               jsonb,                               -- the last proven cleaning since the node was in service
                                                               -- (farrier.model.node.evidence.Cleaned); null: none
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
-- while its number counted as a placeholder (one of identity_placeholders); such duplicates are reported and kept. Machines that differ
-- may share a value, which then proves nothing between them. Only claim_identity and derive_identities write here.
CREATE TABLE farrier.node_identities (
    node_id bigint  NOT NULL REFERENCES farrier.nodes,
    kind    text    NOT NULL CHECK (kind IN ('uuid', 'serial', 'mac')),
    value   text    COLLATE "C" NOT NULL,  -- in the canonical form of identity_keys
    holds   boolean NOT NULL,              -- the first node with this value; false for another machine with it, and for a duplicate
    shared  boolean NOT NULL,              -- the machine otherwise differs from the machine of the holder
    PRIMARY KEY (node_id, kind, value),
    CHECK (NOT (holds AND shared))
);
CREATE UNIQUE INDEX node_identities_one ON farrier.node_identities (kind, value) WHERE holds;
CREATE INDEX node_identities_shared ON farrier.node_identities (kind, value) WHERE NOT holds;
