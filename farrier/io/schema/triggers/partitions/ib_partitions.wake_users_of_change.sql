CREATE OR REPLACE TRIGGER wake_users_of_change AFTER UPDATE ON farrier.ib_partitions
    FOR EACH ROW WHEN ((NEW.state, NEW.pkey, NEW.last_error) IS DISTINCT FROM (OLD.state, OLD.pkey, OLD.last_error))
    EXECUTE FUNCTION farrier.wake_users_of_this('ib_partition');
