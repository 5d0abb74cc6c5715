CREATE OR REPLACE TRIGGER learn_ib_ports_again AFTER UPDATE OF facts ON farrier.node_agents
    FOR EACH ROW WHEN (NEW.facts ? 'ib_guids') EXECUTE FUNCTION farrier.learn_ib_ports();
