-- Fires only for a change without an edge, so that a change along an edge needs no call. See refuse_edge.
CREATE OR REPLACE TRIGGER guard_status AFTER UPDATE ON farrier.nodes
    FOR EACH ROW WHEN (OLD.status <> NEW.status AND NOT farrier.is_edge('node', 'status', OLD.status, NEW.status))
    EXECUTE FUNCTION farrier.refuse_edge('node', 'status', 'status');
