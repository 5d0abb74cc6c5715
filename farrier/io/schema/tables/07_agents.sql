-- The agents on nodes, and the tokens with which they enroll.

-- Single use, stored hashed, worthless after `expires_at`.
CREATE TABLE farrier.bootstrap_tokens (
    hash       bytea       PRIMARY KEY,
    node_id    bigint      NOT NULL REFERENCES farrier.nodes,
    issued_at  timestamptz NOT NULL DEFAULT farrier.now(),
    expires_at timestamptz NOT NULL,
    used_at    timestamptz,
    revoked_at timestamptz
);
CREATE INDEX bootstrap_tokens_node ON farrier.bootstrap_tokens (node_id);

-- The agent on a node: one row, rewritten by every heartbeat.
CREATE TABLE farrier.node_agents (
    node_id           bigint      PRIMARY KEY REFERENCES farrier.nodes,
    key_hash          bytea       NOT NULL,
    facts             jsonb       NOT NULL DEFAULT '{}',
    enrolled_at       timestamptz NOT NULL DEFAULT farrier.now(),
    last_heartbeat_at timestamptz,
    health            jsonb       NOT NULL DEFAULT '{}',
    condition         text        GENERATED ALWAYS AS (
        CASE WHEN health @> '{"alerts": [{"blocks_scheduling": true}]}' THEN 'blocked'
             WHEN health @> '{"ok": false}' OR health -> 'alerts' <> '[]' THEN 'alerting'
             ELSE 'ok' END) STORED,
    ssh_seed_failures integer     NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
CREATE INDEX node_agents_unwell ON farrier.node_agents (condition) WHERE condition <> 'ok';
