CREATE OR REPLACE TRIGGER validate BEFORE INSERT ON farrier.intents FOR EACH ROW EXECUTE FUNCTION farrier.validate_intent();
