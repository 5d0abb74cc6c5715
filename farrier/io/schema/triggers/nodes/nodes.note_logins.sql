CREATE OR REPLACE TRIGGER note_logins AFTER UPDATE ON farrier.nodes
    FOR EACH ROW WHEN (NEW.status <> 'deleted'  -- whose failures count for the node that has the BMC next
          AND (OLD.bmc -> 'tries' IS DISTINCT FROM NEW.bmc -> 'tries' OR OLD.bmc -> 'trying' IS DISTINCT FROM NEW.bmc -> 'trying'))
    EXECUTE FUNCTION farrier.note_logins();
