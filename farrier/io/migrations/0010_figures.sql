-- What counting the fleet every few seconds takes, at little cost for the loop.

-- Words that are told of a node's BMC and of its agent, apart from the JSON that holds them: an index on an expression
-- over that would be written anew with every read of power and every heartbeat, one on these is not while they stay.
ALTER TABLE farrier.nodes
    ADD power text GENERATED ALWAYS AS (CASE WHEN bmc ? 'power_at' THEN bmc ->> 'power' END) STORED,
    ADD sync_failure text GENERATED ALWAYS AS (bmc ->> 'sync_failure') STORED;
ALTER TABLE farrier.node_agents
    ADD condition text GENERATED ALWAYS AS (
        CASE WHEN health @> '{"alerts": [{"blocks_scheduling": true}]}' THEN 'blocked'
             WHEN health @> '{"ok": false}' OR health -> 'alerts' <> '[]' THEN 'alerting'
             ELSE 'ok' END) STORED;

-- The error in which the last run ended; the same for the index on it.
ALTER TABLE farrier.outcomes ADD error text GENERATED ALWAYS AS (outcome ->> 'error') STORED;

CREATE INDEX nodes_management ON farrier.nodes (management, management_entered_at) WHERE status <> 'deleted';

-- The few of which more has to be known. Nodes at rest are in none of these.
CREATE INDEX nodes_not_on ON farrier.nodes (power)
    WHERE power IS DISTINCT FROM 'on' AND management = 'manageable' AND status <> 'deleted';
CREATE INDEX nodes_unread ON farrier.nodes (sync_failure)
    WHERE sync_failure IS NOT NULL AND management = 'manageable' AND status <> 'deleted';
CREATE INDEX nodes_paused ON farrier.nodes (id) WHERE paused IS NOT NULL AND status <> 'deleted';
CREATE INDEX outcomes_failing ON farrier.outcomes (kind, error) WHERE error IS NOT NULL;
CREATE INDEX node_agents_unwell ON farrier.node_agents (condition) WHERE condition <> 'ok';

-- A deleted node has no agent: none may speak for it any more, and none is to be counted.
CREATE FUNCTION farrier.drop_agent() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    DELETE FROM node_agents a WHERE a.node_id = NEW.id;
    RETURN NULL;
END $$;
CREATE TRIGGER drop_agent AFTER UPDATE ON farrier.nodes
    FOR EACH ROW WHEN (NEW.status = 'deleted' AND OLD.status <> 'deleted') EXECUTE FUNCTION farrier.drop_agent();
DELETE FROM farrier.node_agents a USING farrier.nodes n WHERE n.id = a.node_id AND n.status = 'deleted';
