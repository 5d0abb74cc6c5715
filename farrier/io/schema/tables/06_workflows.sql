-- The workflows of nodes.

-- Workflows that take a node into service. At most one workflow of a node is live, of either kind.
CREATE TABLE farrier.node_onboardings (
    id                bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    node_id           bigint      NOT NULL REFERENCES farrier.nodes,
    mode              text,                                        -- deploy, adopt or manual; null until an intent gives it one
    status            text        NOT NULL DEFAULT 'pending',      -- farrier.model.workflow.WorkflowStatus; edges are in
                                                                   -- farrier.edges
    status_entered_at timestamptz NOT NULL DEFAULT farrier.now(),  -- since when the status is this one
    stage             text,                                        -- null before the first
    stage_entered_at  timestamptz NOT NULL DEFAULT farrier.now(),  -- since when the stage is this one
    attempt           integer     NOT NULL DEFAULT 1,              -- counts attempts of the stage, from 1
    next_attempt_at   timestamptz,                                 -- when a stage that failed is tried again
    failure_class     text,                                        -- why the last attempt failed
                                                                   -- (farrier.model.failures.FailureClass)
    failure_detail    text,                                        -- the same for operators
    stop_requested    text,                                        -- drain_failed, frozen (by an operator) or failed: the
                                                                   -- workflow is to stop, which takes several edges
    after_undo        text,                                        -- where `compensating` leads: cancel or restart; else null
    mode_given_at     timestamptz,                                 -- when its end-to-end clock began
    options           jsonb       NOT NULL DEFAULT '{}',           -- what was asked for with it (farrier.model.node.Options)
    skipped           jsonb       NOT NULL DEFAULT '[]',           -- [{stage, why}]: stages that were not run
    upstream          jsonb       NOT NULL DEFAULT '{}',           -- what its stages did in MAAS and have to remember
                                                                   -- (farrier.model.node.Upstream)
    -- Random, because ids begin anew with each database, and several databases may use one region: only a value that cannot be
    -- guessed proves that a request was this workflow's.
    mark              text        NOT NULL DEFAULT left(replace(gen_random_uuid()::text, '-', ''), 16),
                                                                   -- by which its requests are recognised in MAAS
    created_at        timestamptz NOT NULL DEFAULT farrier.now(),
    ended_at          timestamptz                                  -- null while it is live; set by a trigger, with the status
);
CREATE UNIQUE INDEX node_onboardings_live ON farrier.node_onboardings (node_id)
    WHERE ended_at IS NULL;
CREATE INDEX node_onboardings_node ON farrier.node_onboardings (node_id, id);

-- Workflows that take a node out of service, for a while or for good. At most one workflow of a node is live, of either kind.
CREATE TABLE farrier.node_decommissions (
    id                bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    node_id           bigint      NOT NULL REFERENCES farrier.nodes,
    mode              text        NOT NULL,                        -- soft_reset, reimage, full_decommission or storage_cleanup
    status            text        NOT NULL DEFAULT 'pending',      -- farrier.model.workflow.WorkflowStatus; edges are in
                                                                   -- farrier.edges
    status_entered_at timestamptz NOT NULL DEFAULT farrier.now(),  -- since when the status is this one
    stage             text,                                        -- null before the first
    stage_entered_at  timestamptz NOT NULL DEFAULT farrier.now(),  -- since when the stage is this one
    attempt           integer     NOT NULL DEFAULT 1,              -- counts attempts of the stage, from 1
    next_attempt_at   timestamptz,                                 -- when a stage that failed is tried again
    failure_class     text,                                        -- why the last attempt failed
                                                                   -- (farrier.model.failures.FailureClass)
    failure_detail    text,                                        -- the same for operators
    stop_requested    text,                                        -- drain_failed, frozen (by an operator) or failed: the
                                                                   -- workflow is to stop, which takes several edges
    after_undo        text,                                        -- where `compensating` leads: cancel or restart; else null
    mode_given_at     timestamptz,                                 -- when its end-to-end clock began
    options           jsonb       NOT NULL DEFAULT '{}',           -- what was asked for with it (farrier.model.node.Options)
    skipped           jsonb       NOT NULL DEFAULT '[]',           -- [{stage, why}]: stages that were not run
    upstream          jsonb       NOT NULL DEFAULT '{}',           -- what its stages did in MAAS and have to remember
                                                                   -- (farrier.model.node.Upstream)
    mark              text        NOT NULL DEFAULT left(replace(gen_random_uuid()::text, '-', ''), 16),
                                                                   -- random; by which its requests are recognised in MAAS
    created_at        timestamptz NOT NULL DEFAULT farrier.now(),
    ended_at          timestamptz                                  -- null while it is live; set by a trigger, with the status
);
CREATE UNIQUE INDEX node_decommissions_live ON farrier.node_decommissions (node_id)
    WHERE ended_at IS NULL;
CREATE INDEX node_decommissions_node ON farrier.node_decommissions (node_id, id);
