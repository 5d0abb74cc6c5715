-- Kinds of resources. Nodes have tables of their own; any other kind has a table like farrier.resources, and make_kind installs it.

-- The kinds. Nodes are recorded by every migration, others by make_kind.
CREATE TABLE farrier.kinds (
    kind          text     PRIMARY KEY CHECK (kind ~ '^[a-z][a-z0-9_]{0,39}$'),
    relation      regclass NOT NULL UNIQUE,  -- its table, with columns id and version; the oid of no table if that was dropped
    fingerprint   text,                      -- hash of the spec from which its states, edges and actions were filled; null before
    living        text     NOT NULL DEFAULT 'ended_at IS NULL',  -- SQL condition of a row of the table: the resource has not ended
    named         name     NOT NULL DEFAULT 'name',              -- column of the table that has the name of the resource
    from_template boolean  NOT NULL DEFAULT false                -- its table is like farrier.resources: its resources are listed
                                                                 -- and counted, and take the requests in resource_intents
);

-- The layers of each kind, from its spec: states beside each other, each with its own clock.
CREATE TABLE farrier.kind_layers (
    kind  text NOT NULL,
    layer text NOT NULL,  -- of a kind with a table like farrier.resources: state, and others, each the column of its name
    label text NOT NULL,  -- its kind in metrics; names of its limits begin with it, but those of nodes
    relation regclass,    -- the table of the layer, in which column KIND_id names the resource; null: the table of the kind
    PRIMARY KEY (kind, layer)
);

-- The states of each layer, from the spec of its kind.
CREATE TABLE farrier.kind_states (
    kind     text     NOT NULL,
    layer    text     NOT NULL,
    state    text     NOT NULL,  -- STATE or STATE/SUBSTATE
    initial  boolean  NOT NULL,  -- the layer may begin in it
    terminal boolean  NOT NULL,  -- the layer ends in it
    sla      interval,           -- default limit; null: none
    why_none text     NOT NULL,  -- why there is no limit; empty if there is one
    PRIMARY KEY (kind, layer, state)
);

-- The actions that may be asked of resources of each kind, from its spec.
CREATE TABLE farrier.kind_actions (
    kind        text    NOT NULL,
    action      text    NOT NULL,
    description text    NOT NULL,  -- for listings
    params      jsonb   NOT NULL,  -- rules of the parameters; see params_fault
    interrupts  boolean NOT NULL,  -- while such a request is pending, a step that only reads is cut short
    PRIMARY KEY (kind, action)
);

-- Template of the tables of kinds, which begin with these columns; holds no rows. A resource that has ended keeps its row.
CREATE TABLE farrier.resources (
    id               bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name             text        NOT NULL CHECK (
        octet_length(name) <= 253 AND name ~ '^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$' AND name !~ '^[0-9]+$'),
                                                                  -- unique among resources of the kind that have not ended
    site             text,                                        -- null for none
    version          bigint      NOT NULL DEFAULT 1,              -- incremented by each commit that writes the row; a run decided
                                                                  -- on another version is a conflict
    state            text        NOT NULL,                        -- set to the first of the kind by a trigger when the row is
                                                                  -- inserted
    state_entered_at timestamptz NOT NULL DEFAULT farrier.now(),  -- since when the state is this one
    created_at       timestamptz NOT NULL DEFAULT farrier.now(),
    ended_at         timestamptz,                                 -- when it entered a terminal state; null before
    last_error       text                                         -- text of the last failure; null if there is none
) WITH (fillfactor = 80);
-- For gauges, which count by it alone; copied to the table of each kind.
CREATE INDEX resources_by_state ON farrier.resources (state, state_entered_at) WHERE ended_at IS NULL;
-- For a controller that takes a shard; see shard_of.
CREATE INDEX resources_shard ON farrier.resources (((id % 64)::smallint)) WHERE ended_at IS NULL;

-- Functions that a role may call besides those that the files in rights name; recorded by let_call.
CREATE TABLE farrier.callable (
    role_name text NOT NULL,
    function  text NOT NULL,  -- with the types of its arguments: 'farrier.take_address(text,bigint)'
    PRIMARY KEY (role_name, function)
);
