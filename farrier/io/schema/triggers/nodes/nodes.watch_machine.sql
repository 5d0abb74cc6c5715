-- Fires only for a node whose machine changes or that is deleted: other updates need no call.
CREATE OR REPLACE TRIGGER watch_machine AFTER UPDATE ON farrier.nodes
    FOR EACH ROW WHEN (OLD.maas_id IS DISTINCT FROM NEW.maas_id OR OLD.site IS DISTINCT FROM NEW.site
                       OR (NEW.status = 'deleted' AND OLD.status <> 'deleted'))
    EXECUTE FUNCTION farrier.watch_machine();
