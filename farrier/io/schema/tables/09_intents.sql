-- Intents: what clients ask of nodes.

-- What clients ask of nodes, with the response of the node's handler. Clients insert a row, or call farrier.intent().
CREATE TABLE farrier.intents (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    node            text        NOT NULL,                           -- name or id, as the client gave it
    node_id         bigint      NOT NULL REFERENCES farrier.nodes,  -- the node that was meant; set by a trigger
    action          text        NOT NULL,                           -- farrier.model.actions.Action
    params          jsonb       NOT NULL DEFAULT '{}',              -- by the rules in farrier.actions
    api_version     integer,                                        -- version of the API that the client uses; null: the lowest
                                                                    -- supported
    idempotency_key text,                                           -- unique for a node: a repeated request is one intent
    requested_by    text,                                           -- name of the client, as submitted; recorded, not checked
    status          text        NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'accepted', 'rejected', 'superseded')),
                                                                    -- set by the node's handler; accepted: begun or done in that
                                                                    -- commit; superseded: a newer intent took its place
    reason          text,                                           -- text of the response
    created_at      timestamptz NOT NULL DEFAULT farrier.now(),
    answered_at     timestamptz,                                    -- when the status ceased to be pending
    CONSTRAINT intent_size CHECK (octet_length(params::text) <= 16384)
);
CREATE UNIQUE INDEX intents_key ON farrier.intents (node_id, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX intents_pending ON farrier.intents (node_id, id) WHERE status = 'pending';
CREATE INDEX intents_node ON farrier.intents (node_id, id);
