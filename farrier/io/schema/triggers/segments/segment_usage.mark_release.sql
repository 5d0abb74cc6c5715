-- Fires only for a release, and at COMMIT, when other transactions can see the release.
CREATE CONSTRAINT TRIGGER mark_release AFTER UPDATE ON farrier.segment_usage
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.allocated < OLD.allocated) EXECUTE FUNCTION farrier.mark_release();
