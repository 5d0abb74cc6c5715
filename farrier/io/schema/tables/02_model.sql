-- The model and the configuration as triggers and functions read them: filled by every migration and by controllers, never by hand.

-- The edges and first values of farrier.model, filled from it by every migration run.
CREATE TABLE farrier.edges (
    kind       text NOT NULL,
    layer      text NOT NULL,
    from_value text NOT NULL,
    to_value   text NOT NULL,
    PRIMARY KEY (kind, layer, from_value, to_value)
);

CREATE TABLE farrier.initial_values (
    kind  text NOT NULL,
    layer text NOT NULL,
    value text NOT NULL,
    PRIMARY KEY (kind, layer, value)
);

CREATE TABLE farrier.workflow_mapping (
    kind            text NOT NULL,
    workflow_status text NOT NULL,
    node_status     text NOT NULL,
    PRIMARY KEY (kind, workflow_status, node_status)
);

-- What the status of a workflow says of it; statuses are the same for both kinds.
CREATE TABLE farrier.workflow_statuses (
    status    text    PRIMARY KEY,
    ended     boolean NOT NULL,
    succeeded boolean NOT NULL,     -- ended with what it was begun for
    failed    boolean NOT NULL,
    at_work   boolean NOT NULL      -- goes on by itself
);

-- What the plpgsql side has to know of the model and of the configuration; filled from them, never edited.
CREATE TABLE farrier.actions (
    action       text    PRIMARY KEY,
    since        integer NOT NULL,
    interrupts   boolean NOT NULL,     -- while one is pending, a step that only reads is cut short
    while_paused boolean NOT NULL,     -- not held back by a pause
    params       jsonb   NOT NULL
);

CREATE TABLE farrier.advice (
    failure text PRIMARY KEY,
    action  text NOT NULL
);

CREATE TABLE farrier.settings (
    name  text PRIMARY KEY,
    value jsonb NOT NULL
);

INSERT INTO farrier.settings VALUES ('offline_after_seconds', '180'), ('api_min', '1'), ('api_max', '1');

-- How long a node may stay in a state: the limits in force. The substate of a running workflow is its stage; state end_to_end is
-- the clock of a whole workflow. Scope '' is for all nodes, 'model' and 'site' for those of that name; a site's limit comes first.
-- The migration writes the defaults, each controller that starts writes those of its settings.
CREATE TABLE farrier.limits (
    kind     text     NOT NULL,
    state    text     NOT NULL,
    substate text     NOT NULL,
    scope    text     NOT NULL CHECK (scope IN ('', 'model', 'site')),
    name     text     NOT NULL,
    lasts    interval NOT NULL,
    PRIMARY KEY (kind, state, substate, scope, name)
);
