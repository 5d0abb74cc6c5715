CREATE OR REPLACE TRIGGER keep_live_workflows AFTER TRUNCATE ON farrier.node_decommissions
    FOR EACH STATEMENT EXECUTE FUNCTION farrier.keep_live_workflows('decommission');
