-- The agents on nodes, and the tokens with which they enroll.

-- Tokens with which agents enroll. Each token is valid for one enrollment, and is stored as a digest.
CREATE TABLE farrier.bootstrap_tokens (
    hash       bytea       PRIMARY KEY,  -- digest of the token
    node_id    bigint      NOT NULL REFERENCES farrier.nodes,
    issued_at  timestamptz NOT NULL DEFAULT farrier.now(),
    expires_at timestamptz NOT NULL,     -- the token is invalid from then on
    used_at    timestamptz,              -- when an agent enrolled with the token
    revoked_at timestamptz               -- when the token was replaced or revoked before its use
);
CREATE INDEX bootstrap_tokens_node ON farrier.bootstrap_tokens (node_id);

-- The agent of each node: one row, updated by every heartbeat.
CREATE TABLE farrier.node_agents (
    node_id           bigint      PRIMARY KEY REFERENCES farrier.nodes,
    key_hash          bytea       NOT NULL,               -- digest of the key with which the agent authenticates
    facts             jsonb       NOT NULL DEFAULT '{}',  -- facts that the agent reported when it enrolled
    enrolled_at       timestamptz NOT NULL DEFAULT farrier.now(),
    last_heartbeat_at timestamptz,                        -- null before the first heartbeat
    health            jsonb       NOT NULL DEFAULT '{}',  -- the agent's last report: {ok, alerts, ssh_seed} (farrier.model.health)
    condition         text        GENERATED ALWAYS AS (
        CASE WHEN health @> '{"ok": false}' OR health @> '{"alerts": [{"blocks_scheduling": true}]}' THEN 'blocked'
             WHEN health -> 'alerts' <> '[]' THEN 'alerting'
             ELSE 'ok' END) STORED,                       -- derived from health, for gauges; `blocked`: it is not ok, or an alert blocks scheduling
    ssh_seed_failures integer     NOT NULL DEFAULT 0      -- consecutive heartbeats that reported a failed SSH seed
) WITH (fillfactor = 50);
CREATE INDEX node_agents_unwell ON farrier.node_agents (condition) WHERE condition <> 'ok';
