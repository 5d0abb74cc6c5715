-- WHEN is decided as the row is inserted: a transaction that wakes ten thousand resources queues one call and not that
-- many, of which each would walk over all the rows that the first had deleted.
CREATE CONSTRAINT TRIGGER apply_wakes AFTER INSERT ON farrier.wake_requests
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.first) EXECUTE FUNCTION farrier.apply_wakes();
