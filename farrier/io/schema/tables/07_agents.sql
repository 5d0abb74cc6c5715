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
    facts             jsonb       NOT NULL DEFAULT '{}',  -- facts that the agent reported when it enrolled or later
    serial            text        GENERATED ALWAYS AS (left(facts ->> 'serial', 200)) STORED,  -- serial number of the machine among the facts
    uuid              text        GENERATED ALWAYS AS (left(facts ->> 'uuid', 200)) STORED,    -- UUID of the machine among the facts
    identities        jsonb       NOT NULL DEFAULT '{}',  -- those of the two that prove something (identities_of_agent)
    facts_digest      text,                               -- digest that the agent computed of these facts; null if it sent none
    enrolled_at       timestamptz NOT NULL DEFAULT farrier.now(),
    last_heartbeat_at timestamptz,                        -- null before the first heartbeat
    by_door           boolean     NOT NULL DEFAULT false, -- whether the last heartbeat came through a server for agents
    version           text,                               -- version of the agent; null if it sent none
    boot_id           uuid,                               -- boot of the machine that sent the last heartbeat; null if it sent none
    past_boots        uuid[]      NOT NULL DEFAULT '{}',  -- boots that another boot has replaced, the newest first, at most 8;
                                                          -- their heartbeats are refused
    health            jsonb       NOT NULL DEFAULT '{}',  -- the agent's last report: {ok, alerts, ssh_seed} (farrier.model.machine.health)
    condition         text        GENERATED ALWAYS AS (
        CASE WHEN health @> '{"ok": false}' OR health @> '{"alerts": [{"blocks_scheduling": true}]}' THEN 'blocked'
             WHEN health -> 'alerts' <> '[]' THEN 'alerting'
             ELSE 'ok' END) STORED,                       -- derived from health, for gauges; `blocked`: it is not ok, or an alert blocks scheduling
    ssh_seed_failures integer     NOT NULL DEFAULT 0      -- consecutive heartbeats that reported a failed SSH seed
) WITH (fillfactor = 50);
CREATE INDEX node_agents_by_door ON farrier.node_agents (node_id) WHERE by_door;
CREATE INDEX node_agents_unwell ON farrier.node_agents (condition) WHERE condition <> 'ok';
-- A server for agents finds an agent by its key.
CREATE UNIQUE INDEX node_agents_key ON farrier.node_agents (key_hash);
