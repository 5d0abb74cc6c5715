-- Notifies the clients that wait for the response to a request.
CREATE OR REPLACE FUNCTION farrier.tell_resource_intent_answered() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('farrier_resource_intent_answered', '');  -- once per commit: equal ones are told once
    RETURN NULL;
END $$;
