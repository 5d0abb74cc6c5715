-- Since when every run of a resource ends in the same error. Not since its outcome is the same: a text may tell each time of
-- another request, address or line.
ALTER TABLE farrier.outcomes ADD error_at timestamptz;
UPDATE farrier.outcomes SET error_at = at WHERE error IS NOT NULL;

CREATE FUNCTION farrier.note_error() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.error_at := CASE WHEN TG_OP = 'UPDATE' AND OLD.error = NEW.outcome ->> 'error' THEN least(OLD.error_at, NEW.at) ELSE NEW.at END;
    RETURN NEW;
END $$;
-- An outcome without an error takes no call.
CREATE TRIGGER note_error BEFORE INSERT OR UPDATE ON farrier.outcomes
    FOR EACH ROW WHEN (NEW.outcome ->> 'error' IS NOT NULL) EXECUTE FUNCTION farrier.note_error();
-- It derives, and guards nothing: whoever loads data without guards needs it as well.
ALTER TABLE farrier.outcomes ENABLE ALWAYS TRIGGER note_error;
