-- An outcome without an error takes no call.
CREATE OR REPLACE TRIGGER note_error BEFORE INSERT OR UPDATE ON farrier.outcomes
    FOR EACH ROW WHEN (NEW.outcome ->> 'error' IS NOT NULL) EXECUTE FUNCTION farrier.note_error();
-- It derives a column and guards nothing, so a session that loads data without guards needs it as well.
ALTER TABLE farrier.outcomes ENABLE ALWAYS TRIGGER note_error;
