-- Fires only for a node whose address changes: other updates need no call.
CREATE OR REPLACE TRIGGER place_bmc BEFORE UPDATE ON farrier.nodes
    FOR EACH ROW WHEN (OLD.bmc_address IS DISTINCT FROM NEW.bmc_address) EXECUTE FUNCTION farrier.place_bmc();
