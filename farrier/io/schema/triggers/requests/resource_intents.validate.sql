CREATE OR REPLACE TRIGGER validate BEFORE INSERT ON farrier.resource_intents
    FOR EACH ROW EXECUTE FUNCTION farrier.validate_resource_intent();
