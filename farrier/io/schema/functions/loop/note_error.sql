-- Sets outcomes.error_at: the time since which every run of the resource has ended in the same error. Trigger function.
CREATE OR REPLACE FUNCTION farrier.note_error() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.error_at := CASE WHEN TG_OP = 'UPDATE' AND OLD.error = NEW.outcome ->> 'error' THEN least(OLD.error_at, NEW.at) ELSE NEW.at END;
    RETURN NEW;
END $$;
