-- Only for an outcome with an error: most have none, and make no call.
CREATE OR REPLACE TRIGGER note_error BEFORE INSERT OR UPDATE ON farrier.outcomes
    FOR EACH ROW WHEN (NEW.outcome ->> 'error' IS NOT NULL) EXECUTE FUNCTION farrier.note_error();
-- Also in sessions that load data without guards (session_replication_role): it guards nothing and derives a column.
ALTER TABLE farrier.outcomes ENABLE ALWAYS TRIGGER note_error;
