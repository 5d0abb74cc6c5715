-- Fires at COMMIT, because the workflow's row is written by then. Fires only for updates that could break the pair. If
-- the node names no workflow before and after, only its status can be wrong, and the condition checks the status at
-- once.
CREATE CONSTRAINT TRIGGER check_pair AFTER UPDATE ON farrier.nodes
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (OLD.live_workflow_id IS DISTINCT FROM NEW.live_workflow_id OR OLD.live_workflow_kind IS DISTINCT FROM NEW.live_workflow_kind
          OR OLD.status <> NEW.status AND (NEW.live_workflow_kind IS NOT NULL OR NOT farrier.may_have_no_workflow(NEW.status)))
    EXECUTE FUNCTION farrier.check_node_pair();
