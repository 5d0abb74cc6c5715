-- Tasks of decommissions, and the logins that may work on them.

CREATE TABLE farrier.node_tasks (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    node_id       bigint      NOT NULL REFERENCES farrier.nodes,
    workflow_id   bigint      NOT NULL REFERENCES farrier.node_decommissions,
    type          text        NOT NULL,
    status        text        NOT NULL DEFAULT 'queued'
                  CHECK (status IN ('queued', 'dispatched', 'succeeded', 'failed', 'expired', 'cancelled')),
    params        jsonb       NOT NULL DEFAULT '{}',
    attempt       integer     NOT NULL DEFAULT 1,
    failures      integer     NOT NULL DEFAULT 0,
    claimed_by    text,       -- 'agent of NODE' or 'worker LOGIN'
    lease_token   uuid,
    lease_until   timestamptz,
    result        jsonb,
    created_at    timestamptz NOT NULL DEFAULT farrier.now(),
    dispatched_at timestamptz,
    ended_at      timestamptz
);
CREATE UNIQUE INDEX node_tasks_live ON farrier.node_tasks (node_id, type) WHERE status IN ('queued', 'dispatched');
CREATE INDEX node_tasks_queued ON farrier.node_tasks (type, id) WHERE status = 'queued';
CREATE INDEX node_tasks_workflow ON farrier.node_tasks (workflow_id, type, id);
CREATE INDEX node_tasks_node ON farrier.node_tasks (node_id, id);

-- Logins that may work on tasks of several nodes, of which types and at which site (null: at any). Written by
-- grant_worker and revoke_worker.
CREATE TABLE farrier.workers (
    login      text        PRIMARY KEY,
    types      text[]      NOT NULL,
    site       text,
    granted_at timestamptz NOT NULL DEFAULT farrier.now(),
    granted_by text        NOT NULL DEFAULT session_user
);
