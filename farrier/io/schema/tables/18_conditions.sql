-- Conditions of nodes: facts that stand until their source ends them.

-- Conditions that stand now. farrier.model.conditions says what they do in each status. Heartbeats write the conditions of source
-- agent, other calls of agents write identity/enrolment and identity/agent, and the commits of the node's runs write all others. A
-- deleted node has none.
CREATE TABLE farrier.node_conditions (
    node    bigint      NOT NULL REFERENCES farrier.nodes,
    source  text        COLLATE "C" NOT NULL,             -- who states it: agent, bmc, identity, operator or cleaning
    id      text        COLLATE "C" NOT NULL,             -- what it is; for operator, the key of the hold
    target  text        COLLATE "C" NOT NULL DEFAULT '',  -- the part that it concerns, such as a serial number; '': the whole node
    message text        NOT NULL DEFAULT '',              -- text of the source
    effect  text        NOT NULL CHECK (effect IN ('note', 'quarantine')),
                                                          -- quarantine: it keeps the node out of service; note: it is only shown
    since   timestamptz NOT NULL DEFAULT farrier.now(),   -- when it began
    seen_at timestamptz NOT NULL DEFAULT farrier.now(),   -- when its message or effect last changed
    PRIMARY KEY (node, source, id, target)
);
-- For gauges.
CREATE INDEX node_conditions_source ON farrier.node_conditions (source, id, effect);
