CREATE OR REPLACE TRIGGER guard_status AFTER UPDATE ON farrier.node_onboardings
    FOR EACH ROW WHEN (OLD.status <> NEW.status) EXECUTE FUNCTION farrier.guard_status('onboarding');
