-- Fires only for a node whose identities change or that is deleted: every read changes bmc, but seldom its identities.
CREATE OR REPLACE TRIGGER claim_identity AFTER UPDATE ON farrier.nodes
    FOR EACH ROW WHEN (OLD.bmc -> 'serial' IS DISTINCT FROM NEW.bmc -> 'serial' OR OLD.bmc -> 'uuid' IS DISTINCT FROM NEW.bmc -> 'uuid'
          OR OLD.bmc -> 'manufacturer' IS DISTINCT FROM NEW.bmc -> 'manufacturer' OR OLD.bmc -> 'macs' IS DISTINCT FROM NEW.bmc -> 'macs'
          OR (NEW.status = 'deleted' AND OLD.status <> 'deleted'))
    EXECUTE FUNCTION farrier.claim_identity();
