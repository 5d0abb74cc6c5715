-- Only for a region that changes its state: most updates leave it, and make no call.
CREATE OR REPLACE TRIGGER guard_state AFTER UPDATE ON farrier.maas_regions
    FOR EACH ROW WHEN (OLD.state <> NEW.state) EXECUTE FUNCTION farrier.guard_region();
