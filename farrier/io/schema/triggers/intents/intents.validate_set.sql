-- Fires after validate, which sorts before it by name and has checked the types of the parameters.
CREATE OR REPLACE TRIGGER validate_set BEFORE INSERT ON farrier.intents
    FOR EACH ROW WHEN (NEW.action = 'set') EXECUTE FUNCTION farrier.validate_set();
