-- The workflows of nodes.

-- Workflows that take a node into service. A node has at most one live workflow, of either kind.
CREATE TABLE farrier.node_onboardings (
    id                bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    node_id           bigint      NOT NULL REFERENCES farrier.nodes,
    mode              text,                                        -- deploy, adopt or manual; null until an intent gives the mode
    status            text        NOT NULL DEFAULT 'pending',      -- farrier.model.node.layers.WorkflowStatus; edges are in
                                                                   -- farrier.edges
    status_entered_at timestamptz NOT NULL DEFAULT farrier.now(),  -- when the workflow entered this status
    stage             text,                                        -- null before the first stage
    stage_entered_at  timestamptz NOT NULL DEFAULT farrier.now(),  -- when the workflow entered this stage
    attempt           integer     NOT NULL DEFAULT 1,              -- counts attempts of the stage, from 1
    next_attempt_at   timestamptz,                                 -- when a failed stage is retried
    failure_class     text,                                        -- why the last attempt failed
                                                                   -- (farrier.model.node.failures.FailureClass)
    failure_detail    text,                                        -- text of the same failure for operators
    stop_requested    text,                                        -- why the workflow must stop: drain_failed, frozen
                                                                   -- (by an operator) or failed. Stopping takes several
                                                                   -- edges
    after_undo        text,                                        -- what follows `compensating`: cancel or restart;
                                                                   -- null: neither
    mode_given_at     timestamptz,                                 -- when the end-to-end clock began
    options           jsonb       NOT NULL DEFAULT '{}',           -- options of the intent that began it (farrier.model.node.snapshot.Options)
    skipped           jsonb       NOT NULL DEFAULT '[]',           -- [{stage, why}]: stages that were not run
    memo              jsonb       NOT NULL DEFAULT '{}',           -- results of its stages in MAAS that later stages
                                                                   -- need (farrier.model.node.snapshot.Memo)
    -- Random, because ids begin at 1 in each database, and several databases may use one region: only a value that cannot be guessed
    -- proves that a request belongs to this workflow.
    mark              text        NOT NULL DEFAULT left(replace(gen_random_uuid()::text, '-', ''), 16),
                                                                   -- identifies its requests in MAAS
    created_at        timestamptz NOT NULL DEFAULT farrier.now(),
    ended_at          timestamptz                                  -- null while the workflow is live; set by a trigger, with the
                                                                   -- status
);

-- Workflows that take a node out of service, temporarily or for good. A node has at most one live workflow, of either kind.
CREATE TABLE farrier.node_decommissions (
    LIKE farrier.node_onboardings INCLUDING ALL,
    FOREIGN KEY (node_id) REFERENCES farrier.nodes  -- LIKE does not copy it
);
ALTER TABLE farrier.node_decommissions ALTER mode SET NOT NULL;  -- soft_reset, reimage, full_decommission or storage_cleanup

CREATE UNIQUE INDEX node_onboardings_live ON farrier.node_onboardings (node_id)
    WHERE ended_at IS NULL;
CREATE INDEX node_onboardings_node ON farrier.node_onboardings (node_id, id);
CREATE UNIQUE INDEX node_decommissions_live ON farrier.node_decommissions (node_id)
    WHERE ended_at IS NULL;
CREATE INDEX node_decommissions_node ON farrier.node_decommissions (node_id, id);
