CREATE OR REPLACE TRIGGER wake_users AFTER INSERT ON farrier.ib_partitions
    FOR EACH ROW EXECUTE FUNCTION farrier.wake_users_of_this('ib_partition');
