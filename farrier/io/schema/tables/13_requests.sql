-- What other services ask of resources of any kind but nodes.

-- Requests for resources. The INSERT refuses what is malformed, and makes what is to be created; the kind's handler
-- answers the rest.
CREATE TABLE farrier.resource_intents (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind            text        NOT NULL,
    resource        text        NOT NULL,        -- name or id, as it was given
    resource_id     bigint      NOT NULL,
    action          text        NOT NULL,
    params          jsonb       NOT NULL DEFAULT '{}',
    idempotency_key text,
    requested_by    text,
    status          text        NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'accepted', 'rejected', 'superseded')),
    reason          text,
    created_at      timestamptz NOT NULL DEFAULT farrier.now(),
    answered_at     timestamptz,
    CONSTRAINT resource_intent_size CHECK (octet_length(params::text) <= 16384)
);
CREATE UNIQUE INDEX resource_intents_key ON farrier.resource_intents (kind, resource_id, idempotency_key)
    WHERE idempotency_key IS NOT NULL;
-- Before it is made, a resource has no id: a name's creations are told apart by their keys.
CREATE UNIQUE INDEX resource_intents_create_key ON farrier.resource_intents (kind, resource, idempotency_key)
    WHERE idempotency_key IS NOT NULL AND action = 'create';
-- What a call is found by that comes again when its resource has ended.
CREATE INDEX resource_intents_asked ON farrier.resource_intents (kind, resource, idempotency_key, action, id)
    WHERE idempotency_key IS NOT NULL;
CREATE INDEX resource_intents_pending ON farrier.resource_intents (kind, resource_id, id) WHERE status = 'pending';
CREATE INDEX resource_intents_resource ON farrier.resource_intents (kind, resource_id, id);
