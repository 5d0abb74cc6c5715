-- Fires at COMMIT, because the workflow's row is written by then. Fires only for updates that could break the pair. If
-- the node names no workflow before and after, only its status can be wrong. guard_nodes checks the status, and then makes an update for
-- the node, which is an update by a trigger.
CREATE CONSTRAINT TRIGGER check_pair AFTER UPDATE ON farrier.nodes
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (OLD.live_workflow_id IS DISTINCT FROM NEW.live_workflow_id OR OLD.live_workflow_kind IS DISTINCT FROM NEW.live_workflow_kind
          OR OLD.status <> NEW.status AND NEW.live_workflow_kind IS NOT NULL OR pg_trigger_depth() > 0)
    EXECUTE FUNCTION farrier.check_node_pair();
