-- Once, when the request gets its response.
CREATE OR REPLACE TRIGGER tell_answered AFTER UPDATE ON farrier.resource_intents
    FOR EACH ROW WHEN (OLD.status = 'pending' AND NEW.status <> 'pending') EXECUTE FUNCTION farrier.tell_resource_intent_answered();
