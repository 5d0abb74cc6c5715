CREATE OR REPLACE TRIGGER guard_first_values AFTER INSERT ON farrier.node_decommissions
    FOR EACH ROW EXECUTE FUNCTION farrier.guard_first_values('node', 'decommission');
