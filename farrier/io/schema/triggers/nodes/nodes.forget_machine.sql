-- By its name before place_bmc, which follows the address.
CREATE OR REPLACE TRIGGER forget_machine BEFORE UPDATE ON farrier.nodes
    FOR EACH ROW WHEN (NEW.status = 'deleted') EXECUTE FUNCTION farrier.forget_machine();
