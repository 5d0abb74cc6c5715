-- Tasks of decommissions, and the logins that may work on them.

-- The types of tasks. Every migration writes them.
CREATE TABLE farrier.task_types (
    type text PRIMARY KEY
);

-- Tasks of decommissions for agents and workers. A node has at most one live task of a type.
CREATE TABLE farrier.node_tasks (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    node_id       bigint      NOT NULL REFERENCES farrier.nodes,
    workflow_id   bigint      NOT NULL REFERENCES farrier.node_decommissions,  -- the decommission to which the task belongs
    type          text        NOT NULL,                        -- one of task_types
    status        text        NOT NULL DEFAULT 'queued'
                  CHECK (status IN ('queued', 'dispatched', 'succeeded', 'failed', 'expired', 'cancelled')),
                                                               -- dispatched: claimed by an agent or a worker
    params        jsonb       NOT NULL DEFAULT '{}',           -- returned to the claimant; no task has parameters yet
    attempt       integer     NOT NULL DEFAULT 1,              -- which issue of the task within its workflow, from 1; each issue is a
                                                               -- separate row
    failures      integer     NOT NULL DEFAULT 0,              -- how many earlier issues failed
    claimed_by    text,                                        -- 'agent of NODE' or 'worker LOGIN'; null before the claim
    lease_token   uuid,                                        -- random; the claimant authenticates with it
    claim_key     uuid,                                        -- from the claimant; the same claim returns the same lease; null if it
                                                               -- sent none
    lease_until   timestamptz,                                 -- the claimant renews the lease before this time; otherwise the task
                                                               -- ends expired and is issued again
    result        jsonb,                                       -- JSON from the claimant; for a task that no claimant ended, the
                                                               -- reason as a text
    evidence      jsonb,                                       -- what was done to each device, and seen afterwards
                                                               -- (farrier.model.node.evidence); null: not reported
    created_at    timestamptz NOT NULL DEFAULT farrier.now(),  -- when it was queued
    dispatched_at timestamptz,                                 -- when it was claimed
    ended_at      timestamptz,                                 -- when it ended, in whichever status
    CONSTRAINT ended_with_status CHECK ((ended_at IS NULL) = (status IN ('queued', 'dispatched')))
);
CREATE UNIQUE INDEX node_tasks_live ON farrier.node_tasks (node_id, type) WHERE ended_at IS NULL;
CREATE INDEX node_tasks_queued ON farrier.node_tasks (type, id) WHERE status = 'queued';
CREATE INDEX node_tasks_workflow ON farrier.node_tasks (workflow_id, type, id);
CREATE INDEX node_tasks_node ON farrier.node_tasks (node_id, id);

-- Logins that may claim tasks of several nodes. grant_worker and revoke_worker write this table.
CREATE TABLE farrier.workers (
    login      text        PRIMARY KEY,                   -- the session_user of the worker
    types      text[]      NOT NULL,                      -- task types that it may claim
    site       text,                                      -- site of the nodes whose tasks the login may claim; null: all sites
    granted_at timestamptz NOT NULL DEFAULT farrier.now(),
    granted_by text        NOT NULL DEFAULT session_user  -- the session_user that called grant_worker
);
