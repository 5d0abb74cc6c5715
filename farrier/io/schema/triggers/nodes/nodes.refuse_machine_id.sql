CREATE OR REPLACE TRIGGER refuse_machine_id BEFORE INSERT OR UPDATE OF maas_id ON farrier.nodes
    FOR EACH ROW WHEN (NEW.maas_id !~ '^[A-Za-z0-9]{1,64}$') EXECUTE FUNCTION farrier.refuse_machine_id();
