-- Fires only if the agent reports ports, including when it enrolls again.
CREATE OR REPLACE TRIGGER learn_ib_ports AFTER INSERT OR UPDATE OF facts ON farrier.node_agents
    FOR EACH ROW WHEN (NEW.facts ? 'ib_guids') EXECUTE FUNCTION farrier.learn_ib_ports();
