-- The condition checks the form, so a good id makes no call. Not a CHECK constraint, whose error would have neither FR400 nor a
-- hint.
CREATE OR REPLACE TRIGGER refuse_machine_id BEFORE INSERT OR UPDATE OF maas_id ON farrier.nodes
    FOR EACH ROW WHEN (NEW.maas_id !~ '^[A-Za-z0-9]{1,64}$') EXECUTE FUNCTION farrier.refuse_machine_id();
