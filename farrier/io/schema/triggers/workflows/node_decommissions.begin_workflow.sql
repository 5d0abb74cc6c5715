CREATE OR REPLACE TRIGGER begin_workflow BEFORE INSERT ON farrier.node_decommissions
    FOR EACH ROW EXECUTE FUNCTION farrier.begin_workflow('decommission');
