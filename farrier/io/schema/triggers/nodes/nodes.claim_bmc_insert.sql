-- Separate from claim_bmc, because the condition of a trigger for INSERT cannot refer to OLD.
CREATE OR REPLACE TRIGGER claim_bmc_insert AFTER INSERT ON farrier.nodes
    FOR EACH ROW WHEN (NEW.bmc_address IS NOT NULL) EXECUTE FUNCTION farrier.claim_bmc();
