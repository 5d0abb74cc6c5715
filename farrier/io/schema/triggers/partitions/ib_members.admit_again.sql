-- At COMMIT, so that the partition's row is not locked for longer. Only where a client has asked something new of
-- the member (seq); the loop's marks and members that leave need no admission.
CREATE CONSTRAINT TRIGGER admit_again AFTER UPDATE ON farrier.ib_members
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.seq <> OLD.seq AND NEW.state <> 'leaving')
    EXECUTE FUNCTION farrier.admit_member();
