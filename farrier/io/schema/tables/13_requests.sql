-- Intents for resources of kinds with tables like farrier.resources.

-- Intents of clients for resources of kinds with tables like farrier.resources, with the answer. A client inserts a row, or calls
-- farrier.resource_intent(). The INSERT refuses malformed requests, and with `create` it creates the resource.
CREATE TABLE farrier.resource_intents (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind            text        NOT NULL,
    resource        text        NOT NULL,               -- name or id, as the client gave it
    resource_id     bigint      NOT NULL,               -- the resource with that name or id, or the created one; set by a trigger
    action          text        NOT NULL,               -- `create`, or another action of farrier.kind_actions
    params          jsonb       NOT NULL DEFAULT '{}',  -- must obey the rules in farrier.kind_actions
    idempotency_key text,                               -- unique for a resource: a repeated request is the same intent
    requested_by    text        DEFAULT session_user,   -- name of the client, as submitted, or else its login; recorded, not verified
    status          text        NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'accepted', 'rejected', 'superseded')),
                                                        -- `create` is accepted at once; the handler of the kind responds to any other
                                                        -- action
    reason          text,                               -- text of the response
    created_at      timestamptz NOT NULL DEFAULT farrier.now(),
    answered_at     timestamptz,                        -- when the status changed from pending
    CONSTRAINT resource_intent_size CHECK (octet_length(params::text) <= 16384)
);
CREATE UNIQUE INDEX resource_intents_key ON farrier.resource_intents (kind, resource_id, idempotency_key)
    WHERE idempotency_key IS NOT NULL;
-- For creations: a resource has no id before its creation, so the name takes the place of the id.
CREATE UNIQUE INDEX resource_intents_create_key ON farrier.resource_intents (kind, resource, idempotency_key)
    WHERE idempotency_key IS NOT NULL AND action = 'create';
-- intent_by_key uses this index to find a repeated call whose resource has ended.
CREATE INDEX resource_intents_asked ON farrier.resource_intents (kind, resource, idempotency_key, action, id)
    WHERE idempotency_key IS NOT NULL;
CREATE INDEX resource_intents_pending ON farrier.resource_intents (kind, resource_id, id) WHERE status = 'pending';
CREATE INDEX resource_intents_resource ON farrier.resource_intents (kind, resource_id, id);
