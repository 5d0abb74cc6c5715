-- Only for a segment that changes its state.
CREATE OR REPLACE TRIGGER follow_segment AFTER UPDATE ON farrier.network_segments
    FOR EACH ROW WHEN (OLD.state <> NEW.state) EXECUTE FUNCTION farrier.follow_segment();
