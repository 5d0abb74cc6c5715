-- Fires only for an outcome with an error: most outcomes have none, and need no call.
CREATE OR REPLACE TRIGGER note_error BEFORE INSERT OR UPDATE ON farrier.outcomes
    FOR EACH ROW WHEN (NEW.outcome ->> 'error' IS NOT NULL) EXECUTE FUNCTION farrier.note_error();
-- Fires also in sessions that load data without guards (session_replication_role), because it derives a column and
-- guards nothing.
ALTER TABLE farrier.outcomes ENABLE ALWAYS TRIGGER note_error;
