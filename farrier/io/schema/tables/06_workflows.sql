-- The workflows of nodes: at most one of a node is live.

CREATE TABLE farrier.node_onboardings (
    id                bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    node_id           bigint      NOT NULL REFERENCES farrier.nodes,
    mode              text,
    status            text        NOT NULL DEFAULT 'pending',
    status_entered_at timestamptz NOT NULL DEFAULT farrier.now(),
    stage             text,
    stage_entered_at  timestamptz NOT NULL DEFAULT farrier.now(),
    attempt           integer     NOT NULL DEFAULT 1,
    next_attempt_at   timestamptz,
    failure_class     text,
    failure_detail    text,
    stop_requested    text,
    after_undo        text,
    mode_given_at     timestamptz,
    options           jsonb       NOT NULL DEFAULT '{}',
    skipped           jsonb       NOT NULL DEFAULT '[]',
    upstream          jsonb       NOT NULL DEFAULT '{}',  -- what the stage remembers of its requests to MAAS
    -- What the workflow's requests are recognised by in MAAS. Ids begin anew with each database, and several may use one region:
    -- only what nobody can guess proves that a request was ours.
    mark              text        NOT NULL DEFAULT left(replace(gen_random_uuid()::text, '-', ''), 16),
    created_at        timestamptz NOT NULL DEFAULT farrier.now(),
    ended_at          timestamptz            -- null while it is live; set by a trigger, with the status
);
CREATE UNIQUE INDEX node_onboardings_live ON farrier.node_onboardings (node_id)
    WHERE ended_at IS NULL;
CREATE INDEX node_onboardings_node ON farrier.node_onboardings (node_id, id);

CREATE TABLE farrier.node_decommissions (
    id                bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    node_id           bigint      NOT NULL REFERENCES farrier.nodes,
    mode              text        NOT NULL,
    status            text        NOT NULL DEFAULT 'pending',
    status_entered_at timestamptz NOT NULL DEFAULT farrier.now(),
    stage             text,
    stage_entered_at  timestamptz NOT NULL DEFAULT farrier.now(),
    attempt           integer     NOT NULL DEFAULT 1,
    next_attempt_at   timestamptz,
    failure_class     text,
    failure_detail    text,
    stop_requested    text,
    after_undo        text,
    mode_given_at     timestamptz,
    options           jsonb       NOT NULL DEFAULT '{}',
    skipped           jsonb       NOT NULL DEFAULT '[]',
    upstream          jsonb       NOT NULL DEFAULT '{}',
    mark              text        NOT NULL DEFAULT left(replace(gen_random_uuid()::text, '-', ''), 16),
    created_at        timestamptz NOT NULL DEFAULT farrier.now(),
    ended_at          timestamptz            -- null while it is live; set by a trigger, with the status
);
CREATE UNIQUE INDEX node_decommissions_live ON farrier.node_decommissions (node_id)
    WHERE ended_at IS NULL;
CREATE INDEX node_decommissions_node ON farrier.node_decommissions (node_id, id);
