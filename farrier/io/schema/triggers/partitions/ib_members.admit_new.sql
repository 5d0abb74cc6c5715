-- Fires at COMMIT, so that the partition's row is locked only briefly.
CREATE CONSTRAINT TRIGGER admit_new AFTER INSERT ON farrier.ib_members
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION farrier.admit_member();
