-- Fires only for the pools of partition keys.
CREATE OR REPLACE TRIGGER check_pkey_pool BEFORE INSERT OR UPDATE ON farrier.number_pools FOR EACH ROW
    WHEN (NEW.pool = 'pkey' OR starts_with(NEW.pool, 'pkey:')) EXECUTE FUNCTION farrier.check_pkey_pool();
