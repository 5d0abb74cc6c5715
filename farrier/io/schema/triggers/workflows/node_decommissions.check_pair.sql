-- At COMMIT, when the node's row is written, too. Only for a change of the workflow's status.
CREATE CONSTRAINT TRIGGER check_pair AFTER UPDATE ON farrier.node_decommissions
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (OLD.status <> NEW.status)
    EXECUTE FUNCTION farrier.check_workflow_pair('decommission');
