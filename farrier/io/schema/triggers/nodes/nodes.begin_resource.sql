CREATE OR REPLACE TRIGGER begin_resource BEFORE INSERT ON farrier.nodes
    FOR EACH ROW EXECUTE FUNCTION farrier.begin_resource('node');
