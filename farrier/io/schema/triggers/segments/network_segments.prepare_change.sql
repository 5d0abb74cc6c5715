-- Fires only for a change of the checked columns. Separate from prepare_segment, because the condition of a trigger for
-- INSERT cannot refer to OLD.
CREATE OR REPLACE TRIGGER prepare_change BEFORE UPDATE ON farrier.network_segments
    FOR EACH ROW WHEN (OLD.prefixes <> NEW.prefixes OR OLD.gateways <> NEW.gateways OR OLD.mtu <> NEW.mtu) EXECUTE FUNCTION farrier.prepare_segment();
