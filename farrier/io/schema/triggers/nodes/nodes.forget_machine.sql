-- For every update of a deleted node, so that none restores what was cleared. Fires before place_bmc, by the order of names,
-- which follows the address.
CREATE OR REPLACE TRIGGER forget_machine BEFORE UPDATE ON farrier.nodes
    FOR EACH ROW WHEN (NEW.status = 'deleted') EXECUTE FUNCTION farrier.forget_machine();
