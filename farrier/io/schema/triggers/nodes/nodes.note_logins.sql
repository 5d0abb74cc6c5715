-- Fires only for a node whose tries change, because every read changes bmc. Does not fire for a deleted node, because
-- its failed logins still count for the next node with the BMC.
CREATE OR REPLACE TRIGGER note_logins AFTER UPDATE ON farrier.nodes
    FOR EACH ROW WHEN (NEW.status <> 'deleted'
          AND (OLD.bmc -> 'tries' IS DISTINCT FROM NEW.bmc -> 'tries' OR OLD.bmc -> 'trying' IS DISTINCT FROM NEW.bmc -> 'trying'))
    EXECUTE FUNCTION farrier.note_logins();
