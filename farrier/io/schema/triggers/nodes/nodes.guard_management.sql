-- Only for a node that changes its management: most updates leave it, and make no call.
CREATE OR REPLACE TRIGGER guard_management AFTER UPDATE ON farrier.nodes
    FOR EACH ROW WHEN (OLD.management <> NEW.management) EXECUTE FUNCTION farrier.guard_layer('node', 'management', 'management');
