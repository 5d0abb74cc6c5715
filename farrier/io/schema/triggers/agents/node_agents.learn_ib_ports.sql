-- Only if the agent reports ports; also when an agent enrolls again.
CREATE OR REPLACE TRIGGER learn_ib_ports AFTER INSERT OR UPDATE OF facts ON farrier.node_agents
    FOR EACH ROW WHEN (NEW.facts ? 'ib_guids') EXECUTE FUNCTION farrier.learn_ib_ports();
