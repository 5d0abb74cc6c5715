-- Fires only for a segment whose prefixes or gateways change. Separate from open_prefixes, because the condition of a
-- trigger for INSERT cannot refer to OLD.
CREATE OR REPLACE TRIGGER open_more_prefixes AFTER UPDATE ON farrier.network_segments
    FOR EACH ROW WHEN (OLD.prefixes <> NEW.prefixes OR OLD.gateways <> NEW.gateways) EXECUTE FUNCTION farrier.open_prefixes();
