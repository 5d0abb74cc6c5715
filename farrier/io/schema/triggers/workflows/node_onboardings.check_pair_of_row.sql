-- Fires at COMMIT, because the node's row is written by then. Separate from check_pair, because the condition of a
-- trigger for INSERT cannot refer to OLD, and that of a trigger for DELETE cannot refer to NEW.
CREATE CONSTRAINT TRIGGER check_pair_of_row AFTER INSERT OR DELETE ON farrier.node_onboardings
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION farrier.check_workflow_pair('onboarding');
