-- Only when nodes that wait for the segment can go on: it becomes ready, or gets prefixes.
CREATE OR REPLACE TRIGGER wake_users AFTER UPDATE ON farrier.network_segments
    FOR EACH ROW WHEN ((NEW.state = 'ready' AND OLD.state <> 'ready') OR NEW.prefixes <> OLD.prefixes)
    EXECUTE FUNCTION farrier.wake_users_of_this('network_segment');
