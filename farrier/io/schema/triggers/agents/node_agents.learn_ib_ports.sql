CREATE OR REPLACE TRIGGER learn_ib_ports AFTER INSERT ON farrier.node_agents
    FOR EACH ROW WHEN (NEW.facts ? 'ib_guids') EXECUTE FUNCTION farrier.learn_ib_ports();
