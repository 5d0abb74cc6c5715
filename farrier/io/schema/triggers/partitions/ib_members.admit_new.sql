-- At COMMIT, after the partition's schedule row is locked (see join_partition).
CREATE CONSTRAINT TRIGGER admit_new AFTER INSERT ON farrier.ib_members
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION farrier.admit_member();
