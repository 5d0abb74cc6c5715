CREATE OR REPLACE TRIGGER prepare_segment BEFORE INSERT ON farrier.network_segments
    FOR EACH ROW EXECUTE FUNCTION farrier.prepare_segment();
