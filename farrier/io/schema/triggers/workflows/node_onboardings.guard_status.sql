-- Only for a workflow that changes its status: most updates leave it, and make no call.
CREATE OR REPLACE TRIGGER guard_status AFTER UPDATE ON farrier.node_onboardings
    FOR EACH ROW WHEN (OLD.status <> NEW.status) EXECUTE FUNCTION farrier.guard_layer('node', 'onboarding', 'status');
