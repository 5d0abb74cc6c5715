CREATE OR REPLACE TRIGGER wake AFTER INSERT ON farrier.resource_intents
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION farrier.wake_for_resource_intents();
