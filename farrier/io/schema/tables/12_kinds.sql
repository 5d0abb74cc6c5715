-- Kinds of resources besides nodes. A kind is a table like farrier.resources, made known by farrier.make_kind.

CREATE TABLE farrier.kinds (
    kind        text     PRIMARY KEY CHECK (kind ~ '^[a-z][a-z0-9_]{0,39}$'),
    relation    regclass NOT NULL UNIQUE,
    fingerprint text   -- of the spec that its states, edges and actions are from
);

CREATE TABLE farrier.kind_states (
    kind     text     NOT NULL,
    state    text     NOT NULL,
    initial  boolean  NOT NULL,
    terminal boolean  NOT NULL,
    sla      interval,
    why_none text     NOT NULL,
    PRIMARY KEY (kind, state)
);

CREATE TABLE farrier.kind_actions (
    kind        text    NOT NULL,
    action      text    NOT NULL,
    description text    NOT NULL,
    params      jsonb   NOT NULL,
    interrupts  boolean NOT NULL,
    PRIMARY KEY (kind, action)
);

-- What every kind's table begins with; holds no rows. Ended resources keep theirs, and their name is free again.
CREATE TABLE farrier.resources (
    id               bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name             text        NOT NULL CHECK (octet_length(name) <= 253 AND name ~ '^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$' AND name !~ '^[0-9]+$'),
    site             text,
    version          bigint      NOT NULL DEFAULT 1,
    state            text        NOT NULL,   -- the kind's first, unless it is given
    state_entered_at timestamptz NOT NULL DEFAULT farrier.now(),
    created_at       timestamptz NOT NULL DEFAULT farrier.now(),
    ended_at         timestamptz,            -- when it entered a terminal state
    last_error       text
) WITH (fillfactor = 80);
-- By which metrics count, however many there are; copied with the table.
CREATE INDEX resources_by_state ON farrier.resources (state, state_entered_at) WHERE ended_at IS NULL;

-- Rights, besides those that were: of the kinds' tables, and of functions that later migrations or kinds of others let a
-- role call.
CREATE TABLE farrier.callable (
    role_name text NOT NULL,
    function  text NOT NULL,   -- with its arguments: 'farrier.take_address(text,bigint)'
    PRIMARY KEY (role_name, function)
);
