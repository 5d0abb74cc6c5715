CREATE OR REPLACE TRIGGER open_prefixes AFTER INSERT ON farrier.network_segments
    FOR EACH ROW EXECUTE FUNCTION farrier.open_prefixes();
