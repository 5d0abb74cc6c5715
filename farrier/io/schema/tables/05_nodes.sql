-- Nodes, and what no two of them may share: network addresses, BMCs, machines.

-- One row for each node, deleted ones included: a deleted node keeps its row and its history. Written by commits of its runs; a
-- node is created by register_node.
CREATE TABLE farrier.nodes (
    id                    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name                  text        NOT NULL,                -- unique among nodes that are not deleted
    site                  text,                                -- name of its site's file, without .toml; null for none
    model                 text,                                -- model of the machine; limits may differ by it
    rack                  text,                                -- in which rack it stands
    labels                jsonb       NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(labels) = 'object'),
                                                               -- {name: value}, as registered or set; templates of the site use
                                                               -- them
    agentless             boolean     NOT NULL DEFAULT false,  -- no agent enrolls: health is read from BMC and MAAS
    auto_manage           boolean     NOT NULL DEFAULT true,   -- verifies the BMC as soon as its details are complete, without an
                                                               -- intent `manage`
    maas_id               text,                                -- system id of its machine in MAAS; null: none
    maas_created          boolean     NOT NULL DEFAULT false,  -- farrier created that machine in MAAS
    created_at            timestamptz NOT NULL DEFAULT farrier.now(),
    version               bigint      NOT NULL DEFAULT 1,      -- incremented by each commit that writes the row; a run decided on
                                                               -- another version is a conflict
    status                text        NOT NULL,                -- coarse lifecycle (farrier.model.status); edges are in
                                                               -- farrier.edges
    status_entered_at     timestamptz NOT NULL DEFAULT farrier.now(),  -- since when the status is this one
    management            text        NOT NULL,                -- whether the BMC may be used (farrier.model.management); edges
                                                               -- are in farrier.edges
    management_entered_at timestamptz NOT NULL DEFAULT farrier.now(),  -- since when the management is this one
    bmc_address           text,                                -- https URL or host[:port] of the BMC
    bmc_endpoint          text COLLATE "C",                    -- host and port of bmc_address; set by a trigger
    bmc_credential        text,                                -- reference such as file:/run/creds/bmc-1, never a secret
    bmc                   jsonb       NOT NULL DEFAULT '{}',   -- what is known of the BMC from trying it (farrier.model.node.Bmc)
    -- Columns besides the JSON that has them: an index on an expression over that would be updated by every read of power, and
    -- one on these is only when they change.
    power                 text        GENERATED ALWAYS AS (CASE WHEN bmc ? 'power_at' THEN bmc ->> 'power' END) STORED,
                                                               -- power that was last read, on or off; null while unknown
    sync_failure          text        GENERATED ALWAYS AS (bmc ->> 'sync_failure') STORED,
                                                               -- class of failure of the last regular read
                                                               -- (farrier.model.bmc.BmcFailure); null if there is none
    quarantine            jsonb,                               -- {cause, reason}: why the node is quarantined. Kept on its way
                                                               -- out of service; cause cleanup_validation_failed is kept until a
                                                               -- validation succeeds or an operator releases the node with a
                                                               -- reason
    paused                jsonb,                               -- {reason, at}: an operator has paused the node, so it is observed
                                                               -- and nothing is done to it; null if not
    ever_onboarded        boolean     NOT NULL DEFAULT false,  -- an onboarding of this node has ended completed or reconciled
    ever_active           boolean     NOT NULL DEFAULT false,  -- the node has been in service: `delete` is refused,
                                                               -- `decommission` or `remove` end it
    not_scrubbed          boolean     NOT NULL DEFAULT false,  -- an agent task was given up by force, or a cleaning was
                                                               -- cancelled; only a finished scrub clears it, and until then
                                                               -- `reactivate` and `release` are refused
    deleting              boolean     NOT NULL DEFAULT false,  -- an intent `delete` was accepted; the node is on its way to
                                                               -- deleted
    redeploying           boolean     NOT NULL DEFAULT false,  -- a reimage has ended, and the onboarding that follows has not
                                                               -- begun
    live_workflow_kind    text CHECK (live_workflow_kind IN ('onboarding', 'decommission')),
                                                               -- which table has its live workflow; null: none is live
    live_workflow_id      bigint,                              -- the live workflow; checked at COMMIT (check_pair)
    -- Length and pattern are checked apart: a repetition with a count costs thirty times as much, and every update of a row
    -- checks it. What matches is ASCII, so its bytes are its characters.
    CONSTRAINT node_name_form CHECK (
        octet_length(name) <= 253 AND name ~ '^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$' AND name !~ '^[0-9]+$'),
    CONSTRAINT live_workflow_whole CHECK ((live_workflow_kind IS NULL) = (live_workflow_id IS NULL))
) WITH (fillfactor = 80);
-- The name and the machine of a deleted node are free again.
CREATE UNIQUE INDEX nodes_name ON farrier.nodes (name) WHERE status <> 'deleted';
CREATE UNIQUE INDEX nodes_maas ON farrier.nodes (site, maas_id) NULLS NOT DISTINCT
    WHERE status <> 'deleted' AND maas_id IS NOT NULL;
-- For a controller that takes a shard; see shard_of.
CREATE INDEX nodes_shard ON farrier.nodes (((id % 64)::smallint)) WHERE status <> 'deleted';
CREATE INDEX nodes_status ON farrier.nodes (status, status_entered_at);
-- For the brake, which counts the nodes in service of a site in the commit of nodes that leave it.
CREATE INDEX nodes_in_service ON farrier.nodes ((coalesce(site, ''))) WHERE status = 'active';
CREATE INDEX nodes_management ON farrier.nodes (management, management_entered_at) WHERE status <> 'deleted';
-- For gauges of the few nodes that need attention; nodes at rest are in none of these.
CREATE INDEX nodes_not_on ON farrier.nodes (power)
    WHERE power IS DISTINCT FROM 'on' AND management = 'manageable' AND status <> 'deleted';
CREATE INDEX nodes_unread ON farrier.nodes (sync_failure)
    WHERE sync_failure IS NOT NULL AND management = 'manageable' AND status <> 'deleted';
CREATE INDEX nodes_paused ON farrier.nodes (id) WHERE paused IS NOT NULL AND status <> 'deleted';

-- MAC addresses of the machines of nodes, as registered or set.
CREATE TABLE farrier.node_macs (
    mac     macaddr PRIMARY KEY,  -- of a network card of the machine
    node_id bigint NOT NULL REFERENCES farrier.nodes
);
CREATE INDEX node_macs_node ON farrier.node_macs (node_id);

-- What a BMC address claims, whatever its spelling (bmc_span_of): with a path, that one system; without, the whole BMC with every
-- system behind it. A range of text, because the whole and a part of it exclude each other, in whichever order they come.
CREATE TYPE farrier.bmc_span AS RANGE (subtype = text, collation = "C");

-- What the BMC address of each node claims. Written only by claim_bmc. A table of its own, because the exclusion constraint would
-- be checked with every change of a node's row.
CREATE TABLE farrier.node_bmcs (
    node_id bigint PRIMARY KEY REFERENCES farrier.nodes,
    span    farrier.bmc_span NOT NULL,  -- what its bmc_address claims
    CONSTRAINT node_bmcs_one EXCLUDE USING gist (span WITH &&)
);

-- Logins at each BMC that are not known to have succeeded: the tries of nodes.bmc, kept where they were made. They outlive the
-- node's address and the node by login_window, because the lock that a BMC puts on the account does, too. Written only by
-- note_logins.
CREATE TABLE farrier.bmc_logins (
    endpoint text COLLATE "C" NOT NULL,                      -- host and port of the BMC
    node_id  bigint      NOT NULL REFERENCES farrier.nodes,  -- the node that logged in
    at       timestamptz NOT NULL,                           -- when the login was made
    open     boolean     NOT NULL,                           -- the login may be under way
    PRIMARY KEY (endpoint, node_id, at)
);
CREATE INDEX bmc_logins_at ON farrier.bmc_logins (at);

-- What identifies the machine of each node, from nodes.bmc. Of nodes with the same machine one holds it. The others recorded it
-- while its number passed for a filler (one of identity_placeholders): such duplicates are reported and stay. Written only by
-- claim_identity and set_identity_placeholders.
CREATE TABLE farrier.node_identities (
    node_id bigint  NOT NULL REFERENCES farrier.nodes,
    kind    text    NOT NULL CHECK (kind IN ('uuid', 'serial', 'mac')),
    value   text    COLLATE "C" NOT NULL,  -- in the spelling of identity_keys
    holds   boolean NOT NULL,              -- the machine belongs to this node; false for a duplicate
    PRIMARY KEY (node_id, kind, value)
);
CREATE UNIQUE INDEX node_identities_one ON farrier.node_identities (kind, value) WHERE holds;
CREATE INDEX node_identities_shared ON farrier.node_identities (kind, value) WHERE NOT holds;
