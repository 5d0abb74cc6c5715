CREATE OR REPLACE TRIGGER begin_resource BEFORE INSERT ON farrier.node_onboardings
    FOR EACH ROW EXECUTE FUNCTION farrier.begin_resource('node', 'onboarding', 'status');
