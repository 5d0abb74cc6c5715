-- Fires only for a change of the segment's state.
CREATE OR REPLACE TRIGGER follow_segment AFTER UPDATE ON farrier.network_segments
    FOR EACH ROW WHEN (OLD.state <> NEW.state) EXECUTE FUNCTION farrier.follow_segment();
