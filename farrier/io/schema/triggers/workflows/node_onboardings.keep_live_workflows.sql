CREATE OR REPLACE TRIGGER keep_live_workflows AFTER TRUNCATE ON farrier.node_onboardings
    FOR EACH STATEMENT EXECUTE FUNCTION farrier.keep_live_workflows('onboarding');
