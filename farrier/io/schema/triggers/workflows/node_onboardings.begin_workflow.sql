CREATE OR REPLACE TRIGGER begin_workflow BEFORE INSERT ON farrier.node_onboardings
    FOR EACH ROW EXECUTE FUNCTION farrier.begin_workflow('onboarding');
