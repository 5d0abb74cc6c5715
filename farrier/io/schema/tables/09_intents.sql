-- Intents for nodes.

-- Intents of clients for nodes, with the answer of the node's handler. A client inserts a row, or calls farrier.intent().
CREATE TABLE farrier.intents (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    node            text        NOT NULL,                           -- name or id, as the client gave it
    node_id         bigint      NOT NULL REFERENCES farrier.nodes,  -- the node with that name or id; set by a trigger
    action          text        NOT NULL,                           -- farrier.model.intents.actions.Action
    params          jsonb       NOT NULL DEFAULT '{}',              -- must obey the rules in farrier.kind_actions
    api_version     integer,                                        -- version of the API that the client uses; null: the lowest
                                                                    -- supported one
    idempotency_key text,                                           -- unique for a node: a repeated request is the same intent
    requested_by    text        DEFAULT session_user,               -- name of the client, as submitted, or else its login; recorded,
                                                                    -- not verified
    status          text        NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'accepted', 'rejected', 'superseded')),
                                                                    -- set by the node's handler; accepted: begun or done in that
                                                                    -- commit; superseded: replaced by a newer intent
    reason          text,                                           -- text of the response
    created_at      timestamptz NOT NULL DEFAULT farrier.now(),
    answered_at     timestamptz,                                    -- when the status changed from pending
    CONSTRAINT intent_size CHECK (octet_length(params::text) <= 16384)
);
CREATE UNIQUE INDEX intents_key ON farrier.intents (node_id, idempotency_key) WHERE idempotency_key IS NOT NULL;
-- intent_by_key uses this index to find a repeated call whose node was deleted.
CREATE INDEX intents_asked ON farrier.intents (node, idempotency_key, action, id) WHERE idempotency_key IS NOT NULL;
CREATE INDEX intents_pending ON farrier.intents (node_id, id) WHERE status = 'pending';
CREATE INDEX intents_node ON farrier.intents (node_id, id);
