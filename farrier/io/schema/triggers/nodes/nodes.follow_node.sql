-- Fires only for a change of a column that other tables depend on. Every reading of the BMC changes bmc, and then the function
-- compares the parts.
CREATE OR REPLACE TRIGGER follow_node AFTER UPDATE ON farrier.nodes
    FOR EACH ROW WHEN (OLD.bmc IS DISTINCT FROM NEW.bmc OR OLD.bmc_address IS DISTINCT FROM NEW.bmc_address
          OR OLD.maas_id IS DISTINCT FROM NEW.maas_id OR OLD.site IS DISTINCT FROM NEW.site OR OLD.status <> NEW.status AND NEW.status = 'deleted')
    EXECUTE FUNCTION farrier.follow_node();
