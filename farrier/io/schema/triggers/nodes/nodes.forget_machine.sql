-- Fires for every update of a deleted node, so that no update restores the cleared columns. Fires before place_bmc,
-- which sorts after it by name and derives bmc_endpoint from the address.
CREATE OR REPLACE TRIGGER forget_machine BEFORE UPDATE ON farrier.nodes
    FOR EACH ROW WHEN (NEW.status = 'deleted') EXECUTE FUNCTION farrier.forget_machine();
