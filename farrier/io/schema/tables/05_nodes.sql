-- Nodes, and what no two of them may share: network addresses, BMCs, machines.

CREATE TABLE farrier.nodes (
    id                    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name                  text        NOT NULL,
    site                  text,
    model                 text,
    labels                jsonb       NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(labels) = 'object'),
    agentless             boolean     NOT NULL DEFAULT false,
    auto_manage           boolean     NOT NULL DEFAULT true,
    maas_id               text,
    maas_created          boolean     NOT NULL DEFAULT false,  -- farrier made its machine in MAAS
    created_at            timestamptz NOT NULL DEFAULT farrier.now(),
    version               bigint      NOT NULL DEFAULT 1,
    status                text        NOT NULL,
    status_entered_at     timestamptz NOT NULL DEFAULT farrier.now(),
    management            text        NOT NULL,
    management_entered_at timestamptz NOT NULL DEFAULT farrier.now(),
    bmc_address           text,
    bmc_endpoint          text COLLATE "C",  -- host and port of the address; filled in by a trigger
    bmc_credential        text,       -- a reference, never a secret
    bmc                   jsonb       NOT NULL DEFAULT '{}',
    -- Apart from the JSON that holds them: an index on an expression over that would be written anew with every read of power,
    -- one on these is not while they stay.
    power                 text        GENERATED ALWAYS AS (CASE WHEN bmc ? 'power_at' THEN bmc ->> 'power' END) STORED,
    sync_failure          text        GENERATED ALWAYS AS (bmc ->> 'sync_failure') STORED,
    quarantine            jsonb,
    paused                jsonb,
    ever_onboarded        boolean     NOT NULL DEFAULT false,
    ever_active           boolean     NOT NULL DEFAULT false,
    not_scrubbed          boolean     NOT NULL DEFAULT false,
    deleting              boolean     NOT NULL DEFAULT false,
    redeploying           boolean     NOT NULL DEFAULT false,  -- a reimage ended; the onboarding that follows has not begun
    live_workflow_kind    text CHECK (live_workflow_kind IN ('onboarding', 'decommission')),
    live_workflow_id      bigint,
    -- A repetition with a count costs thirty times as much, and every update of a row checks it; what passes is ASCII, so its
    -- bytes are its characters.
    CONSTRAINT node_name_form CHECK (octet_length(name) <= 253 AND name ~ '^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$' AND name !~ '^[0-9]+$'),
    CONSTRAINT live_workflow_whole CHECK ((live_workflow_kind IS NULL) = (live_workflow_id IS NULL))
) WITH (fillfactor = 80);
-- A deleted node keeps its row and its history; its name and its BMC are free again.
CREATE UNIQUE INDEX nodes_name ON farrier.nodes (name) WHERE status <> 'deleted';
CREATE UNIQUE INDEX nodes_maas ON farrier.nodes (site, maas_id) NULLS NOT DISTINCT WHERE status <> 'deleted' AND maas_id IS NOT NULL;
CREATE INDEX nodes_status ON farrier.nodes (status, status_entered_at);
CREATE INDEX nodes_management ON farrier.nodes (management, management_entered_at) WHERE status <> 'deleted';
-- The few of which more has to be known. Nodes at rest are in none of these.
CREATE INDEX nodes_not_on ON farrier.nodes (power)
    WHERE power IS DISTINCT FROM 'on' AND management = 'manageable' AND status <> 'deleted';
CREATE INDEX nodes_unread ON farrier.nodes (sync_failure)
    WHERE sync_failure IS NOT NULL AND management = 'manageable' AND status <> 'deleted';
CREATE INDEX nodes_paused ON farrier.nodes (id) WHERE paused IS NOT NULL AND status <> 'deleted';

CREATE TABLE farrier.node_macs (
    mac     macaddr PRIMARY KEY,
    node_id bigint NOT NULL REFERENCES farrier.nodes
);
CREATE INDEX node_macs_node ON farrier.node_macs (node_id);

-- What an address claims, however it is spelled: with a path, that one system; without, the whole BMC with every system
-- behind it. Ranges of text, because "the whole" and "a part of it" have to exclude each other whoever comes first.
CREATE TYPE farrier.bmc_span AS RANGE (subtype = text, collation = "C");

-- Written by a trigger alone. Apart from the node, whose row changes with every move of its status.
CREATE TABLE farrier.node_bmcs (
    node_id bigint PRIMARY KEY REFERENCES farrier.nodes,
    span    farrier.bmc_span NOT NULL,
    CONSTRAINT node_bmcs_one EXCLUDE USING gist (span WITH &&)
);

-- The logins at each BMC that are not known to have succeeded, by node: the `tries` of the nodes, kept where they were
-- made. They outlive the node and its address by five minutes, because the account that a BMC may lock does, too. `open` is
-- the one that may be under way. Written by a trigger alone.
CREATE TABLE farrier.bmc_logins (
    endpoint text COLLATE "C" NOT NULL,
    node_id  bigint      NOT NULL REFERENCES farrier.nodes,
    at       timestamptz NOT NULL,
    open     boolean     NOT NULL,
    PRIMARY KEY (endpoint, node_id, at)
);
CREATE INDEX bmc_logins_at ON farrier.bmc_logins (at);

-- What identifies the machines of nodes, written by a trigger on `nodes` alone. `holds` is false for a node whose
-- machine another node had recorded first while its number passed for a filler: such duplicates are reported and stay.
CREATE TABLE farrier.node_identities (
    node_id bigint  NOT NULL REFERENCES farrier.nodes,
    kind    text    NOT NULL CHECK (kind IN ('uuid', 'serial', 'mac')),
    value   text    COLLATE "C" NOT NULL,
    holds   boolean NOT NULL,
    PRIMARY KEY (node_id, kind, value)
);
CREATE UNIQUE INDEX node_identities_one ON farrier.node_identities (kind, value) WHERE holds;
CREATE INDEX node_identities_shared ON farrier.node_identities (kind, value) WHERE NOT holds;
