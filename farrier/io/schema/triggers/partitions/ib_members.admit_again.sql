CREATE CONSTRAINT TRIGGER admit_again AFTER UPDATE ON farrier.ib_members
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.seq <> OLD.seq AND NEW.state <> 'leaving')
    EXECUTE FUNCTION farrier.admit_member();
