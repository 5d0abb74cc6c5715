CREATE OR REPLACE TRIGGER wake_users AFTER UPDATE ON farrier.network_segments
    FOR EACH ROW WHEN ((NEW.state, NEW.prefixes) IS DISTINCT FROM (OLD.state, OLD.prefixes))
    EXECUTE FUNCTION farrier.wake_users_of_this('network_segment');
