CREATE OR REPLACE TRIGGER begin_resource BEFORE INSERT ON farrier.node_decommissions
    FOR EACH ROW EXECUTE FUNCTION farrier.begin_resource('node', 'decommission', 'status');
