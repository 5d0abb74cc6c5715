CREATE OR REPLACE TRIGGER wake_users_of_change AFTER UPDATE ON farrier.ib_partitions
    FOR EACH ROW WHEN (NEW.state <> OLD.state OR NEW.last_error IS DISTINCT FROM OLD.last_error)
    EXECUTE FUNCTION farrier.wake_users_of_this('ib_partition');
