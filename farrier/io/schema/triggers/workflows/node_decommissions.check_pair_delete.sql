-- At COMMIT, when the node's row is written, too. Separate from check_pair, because a condition of DELETE cannot refer to NEW.
CREATE CONSTRAINT TRIGGER check_pair_delete AFTER DELETE ON farrier.node_decommissions
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION farrier.check_workflow_pair('decommission');
