-- The agents on nodes, and the tokens with which they enroll.

-- Tokens with which agents enroll, each once. Stored as digests.
CREATE TABLE farrier.bootstrap_tokens (
    hash       bytea       PRIMARY KEY,  -- digest of the token
    node_id    bigint      NOT NULL REFERENCES farrier.nodes,
    issued_at  timestamptz NOT NULL DEFAULT farrier.now(),
    expires_at timestamptz NOT NULL,     -- from then on it is worthless
    used_at    timestamptz,              -- when an agent enrolled with it
    revoked_at timestamptz               -- when it was replaced or revoked before its use
);
CREATE INDEX bootstrap_tokens_node ON farrier.bootstrap_tokens (node_id);

-- The agent of each node: one row, updated by every heartbeat.
CREATE TABLE farrier.node_agents (
    node_id           bigint      PRIMARY KEY REFERENCES farrier.nodes,
    key_hash          bytea       NOT NULL,               -- digest of the key that the agent proves itself with
    facts             jsonb       NOT NULL DEFAULT '{}',  -- what the agent reported as it enrolled
    enrolled_at       timestamptz NOT NULL DEFAULT farrier.now(),
    last_heartbeat_at timestamptz,                        -- null before the first heartbeat
    health            jsonb       NOT NULL DEFAULT '{}',  -- its last report: {ok, alerts, ssh_seed} (farrier.model.health)
    condition         text        GENERATED ALWAYS AS (
        CASE WHEN health @> '{"alerts": [{"blocks_scheduling": true}]}' THEN 'blocked'
             WHEN health @> '{"ok": false}' OR health -> 'alerts' <> '[]' THEN 'alerting'
             ELSE 'ok' END) STORED,                       -- of health, for gauges; `blocked`: an alert blocks scheduling
    ssh_seed_failures integer     NOT NULL DEFAULT 0      -- consecutive heartbeats that reported a failed SSH seed
) WITH (fillfactor = 50);
CREATE INDEX node_agents_unwell ON farrier.node_agents (condition) WHERE condition <> 'ok';
