-- Fires only in the update that deletes the node. Fires at COMMIT, because the commit that deletes the node responds to
-- its intents and ends its tasks after it has written the node.
CREATE CONSTRAINT TRIGGER forget_keys AFTER UPDATE ON farrier.nodes
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.status = 'deleted' AND OLD.status <> 'deleted') EXECUTE FUNCTION farrier.forget_keys();
