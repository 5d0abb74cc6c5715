CREATE OR REPLACE TRIGGER take_pkey BEFORE INSERT ON farrier.ib_partitions FOR EACH ROW EXECUTE FUNCTION farrier.take_pkey();
