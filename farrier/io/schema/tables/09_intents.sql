-- What other services ask of nodes.

CREATE TABLE farrier.intents (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    node            text        NOT NULL,        -- name or id, as it was given
    node_id         bigint      NOT NULL REFERENCES farrier.nodes,
    action          text        NOT NULL,
    params          jsonb       NOT NULL DEFAULT '{}',
    api_version     integer,
    idempotency_key text,
    requested_by    text,
    status          text        NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'accepted', 'rejected', 'superseded')),
    reason          text,
    created_at      timestamptz NOT NULL DEFAULT farrier.now(),
    answered_at     timestamptz,
    CONSTRAINT intent_size CHECK (octet_length(params::text) <= 16384)
);
CREATE UNIQUE INDEX intents_key ON farrier.intents (node_id, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX intents_pending ON farrier.intents (node_id, id) WHERE status = 'pending';
CREATE INDEX intents_node ON farrier.intents (node_id, id);
