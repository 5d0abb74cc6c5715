-- Fires at COMMIT, so that the partition's row is locked only briefly. Fires only for a new request of a client for the
-- member (seq): states that the loop records, and members that leave, need no admission.
CREATE CONSTRAINT TRIGGER admit_again AFTER UPDATE ON farrier.ib_members
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.seq <> OLD.seq AND NEW.state <> 'leaving')
    EXECUTE FUNCTION farrier.admit_member();
