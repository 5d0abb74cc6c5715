-- Its name comes after that of `validate`, which has seen to the types.
CREATE OR REPLACE TRIGGER validate_set BEFORE INSERT ON farrier.intents
    FOR EACH ROW WHEN (NEW.action = 'set') EXECUTE FUNCTION farrier.validate_set();
