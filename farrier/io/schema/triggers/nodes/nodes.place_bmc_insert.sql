-- Separate from place_bmc, because the condition of a trigger for INSERT cannot refer to OLD.
CREATE OR REPLACE TRIGGER place_bmc_insert BEFORE INSERT ON farrier.nodes
    FOR EACH ROW WHEN (NEW.bmc_address IS NOT NULL) EXECUTE FUNCTION farrier.place_bmc();
