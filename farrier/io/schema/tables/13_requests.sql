-- Requests: what clients ask of resources of kinds with tables like farrier.resources.

-- What clients ask of resources of kinds with tables like farrier.resources, with the response. Clients insert a row, or call
-- farrier.resource_intent(). The INSERT refuses what is malformed, and creates the resource that `create` asks for.
CREATE TABLE farrier.resource_intents (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind            text        NOT NULL,
    resource        text        NOT NULL,               -- name or id, as the client gave it
    resource_id     bigint      NOT NULL,               -- the resource that was meant or created; set by a trigger
    action          text        NOT NULL,               -- `create`, or another action of farrier.kind_actions
    params          jsonb       NOT NULL DEFAULT '{}',  -- by the rules in farrier.kind_actions
    idempotency_key text,                               -- unique for a resource: a repeated request is one request
    requested_by    text,                               -- name of the client, as submitted; recorded, not checked
    status          text        NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'accepted', 'rejected', 'superseded')),
                                                        -- `create` is accepted at once; any other is answered by the kind's
                                                        -- handler
    reason          text,                               -- text of the response
    created_at      timestamptz NOT NULL DEFAULT farrier.now(),
    answered_at     timestamptz,                        -- when the status ceased to be pending
    CONSTRAINT resource_intent_size CHECK (octet_length(params::text) <= 16384)
);
CREATE UNIQUE INDEX resource_intents_key ON farrier.resource_intents (kind, resource_id, idempotency_key)
    WHERE idempotency_key IS NOT NULL;
-- A resource has no id before it is created: creations by one name are distinguished by their keys.
CREATE UNIQUE INDEX resource_intents_create_key ON farrier.resource_intents (kind, resource, idempotency_key)
    WHERE idempotency_key IS NOT NULL AND action = 'create';
-- By which resource_intent_by_key finds a repeated call whose resource has ended.
CREATE INDEX resource_intents_asked ON farrier.resource_intents (kind, resource, idempotency_key, action, id)
    WHERE idempotency_key IS NOT NULL;
CREATE INDEX resource_intents_pending ON farrier.resource_intents (kind, resource_id, id) WHERE status = 'pending';
CREATE INDEX resource_intents_resource ON farrier.resource_intents (kind, resource_id, id);
