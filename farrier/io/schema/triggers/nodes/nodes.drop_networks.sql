-- Fires only in the update that deletes the node.
CREATE OR REPLACE TRIGGER drop_networks AFTER UPDATE ON farrier.nodes
    FOR EACH ROW WHEN (NEW.status = 'deleted' AND OLD.status <> 'deleted') EXECUTE FUNCTION farrier.drop_networks();
