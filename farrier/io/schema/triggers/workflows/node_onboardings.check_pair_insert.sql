-- At COMMIT, when the node's row is written, too. Separate from check_pair, because a condition of INSERT cannot refer to OLD.
CREATE CONSTRAINT TRIGGER check_pair_insert AFTER INSERT ON farrier.node_onboardings
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION farrier.check_workflow_pair('onboarding');
