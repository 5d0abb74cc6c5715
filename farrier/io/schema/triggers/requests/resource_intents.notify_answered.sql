-- Fires only in the update that records the response to the intent.
CREATE OR REPLACE TRIGGER notify_answered AFTER UPDATE ON farrier.resource_intents
    FOR EACH ROW WHEN (OLD.status = 'pending' AND NEW.status <> 'pending') EXECUTE FUNCTION farrier.notify_resource_intent_answered();
