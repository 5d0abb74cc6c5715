-- Conditions of nodes: facts that stand until their source ends them.

-- Conditions that stand now. farrier.model.node.conditions says what they do in each status. Heartbeats write the conditions of source
-- agent, other calls of agents write identity/enrolment and identity/agent, calls of monitors write those of monitor:NAME, and the
-- commits of the node's runs write all others. Only a run decides the effect. A deleted node has none.
CREATE TABLE farrier.node_conditions (
    node    bigint      NOT NULL REFERENCES farrier.nodes,
    source  text        COLLATE "C" NOT NULL,             -- who states it (farrier.model.node.conditions.Source), or monitor:NAME
    id      text        COLLATE "C" NOT NULL,             -- what it is; for operator, the key of the hold
    target  text        COLLATE "C" NOT NULL DEFAULT '',  -- the part that it concerns, such as a serial number; '': the whole node
    message text        NOT NULL DEFAULT '',              -- text of the source
    requested text      NOT NULL CHECK (requested IN ('note', 'quarantine')),
                                                          -- the effect that the source requests
    effect  text        NOT NULL DEFAULT 'note' CHECK (effect IN ('note', 'quarantine')),
                                                          -- quarantine: it keeps the node out of service; note: it is only shown
    released boolean    NOT NULL DEFAULT false,           -- an operator released it: it is a note until its source ends it or
                                                          -- requests another effect
    since   timestamptz NOT NULL DEFAULT farrier.now(),   -- when it began
    seen_at timestamptz NOT NULL DEFAULT farrier.now(),   -- when its message or effect last changed
    expires_at timestamptz,                               -- when it becomes unknown, unless its source states it again; null: never
    PRIMARY KEY (node, source, id, target)
);
-- For gauges.
CREATE INDEX node_conditions_source ON farrier.node_conditions (source, id, effect);

-- How many notes ended because their source stated more conditions of one node than it may have (make_room).
CREATE TABLE farrier.condition_drops (
    source  text   COLLATE "C" PRIMARY KEY,
    dropped bigint NOT NULL
);
