-- Fires only for a node whose address changes or that is deleted: other updates need no call.
CREATE OR REPLACE TRIGGER claim_bmc AFTER UPDATE ON farrier.nodes
    FOR EACH ROW WHEN (OLD.bmc_address IS DISTINCT FROM NEW.bmc_address OR (NEW.status = 'deleted' AND OLD.status <> 'deleted'))
    EXECUTE FUNCTION farrier.claim_bmc();
