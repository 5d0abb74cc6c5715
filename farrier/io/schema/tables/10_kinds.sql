-- Kinds of resources. Nodes have tables of their own. Any other kind has a table like farrier.resources, which make_kind installs.

-- The kinds. Every migration records kind node; make_kind records the other kinds.
CREATE TABLE farrier.kinds (
    kind          text     PRIMARY KEY CHECK (kind ~ '^[a-z][a-z0-9_]{0,39}$'),
    relation      regclass NOT NULL UNIQUE,  -- its table, with columns id, version and commit_id; after the table was dropped, an oid
                                             -- without a table
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
    commit_id        uuid,                                        -- the last commit of a run that wrote the row; null: no commit.
                                                                  -- See settle_runs
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
