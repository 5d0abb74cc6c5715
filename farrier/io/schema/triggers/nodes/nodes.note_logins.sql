-- Only for a node whose tries change: bmc changes with every read. Not for a deleted node, whose failed logins go on counting for
-- the node that has the BMC next.
CREATE OR REPLACE TRIGGER note_logins AFTER UPDATE ON farrier.nodes
    FOR EACH ROW WHEN (NEW.status <> 'deleted'
          AND (OLD.bmc -> 'tries' IS DISTINCT FROM NEW.bmc -> 'tries' OR OLD.bmc -> 'trying' IS DISTINCT FROM NEW.bmc -> 'trying'))
    EXECUTE FUNCTION farrier.note_logins();
