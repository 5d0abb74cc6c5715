-- Fires only for a change without an edge, so that a change along an edge needs no call. See refuse_edge.
CREATE OR REPLACE TRIGGER guard_management AFTER UPDATE ON farrier.nodes
    FOR EACH ROW WHEN (OLD.management <> NEW.management AND NOT farrier.is_edge('node', 'management', OLD.management, NEW.management))
    EXECUTE FUNCTION farrier.refuse_edge('node', 'management', 'management');
