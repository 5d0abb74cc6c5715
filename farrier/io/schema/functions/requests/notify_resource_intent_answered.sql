-- Notifies clients that wait for the response to an intent, on channel farrier_resource_intent_answered. Trigger function.
CREATE OR REPLACE FUNCTION farrier.notify_resource_intent_answered() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('farrier_resource_intent_answered', '');  -- equal notifications of a transaction are sent once
    RETURN NULL;
END $$;
