CREATE OR REPLACE TRIGGER guard_first_values AFTER INSERT ON farrier.nodes
    FOR EACH ROW EXECUTE FUNCTION farrier.guard_first_values('node', 'status', 'management');
