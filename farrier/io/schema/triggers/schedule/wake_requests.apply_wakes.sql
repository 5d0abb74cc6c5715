-- At COMMIT, so that schedule rows are locked only for its length. The condition is evaluated as the row is inserted, so a
-- transaction that enqueues ten thousand resources queues one call; each further call would scan the rows that the first has
-- deleted.
CREATE CONSTRAINT TRIGGER apply_wakes AFTER INSERT ON farrier.wake_requests
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.first) EXECUTE FUNCTION farrier.apply_wakes();
