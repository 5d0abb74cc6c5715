CREATE OR REPLACE TRIGGER guard_management AFTER UPDATE ON farrier.nodes
    FOR EACH ROW WHEN (OLD.management <> NEW.management) EXECUTE FUNCTION farrier.guard_management();
