-- Enqueues the resources of new pending intents. AFTER INSERT trigger on resource_intents.
CREATE OR REPLACE FUNCTION farrier.wake_for_resource_intents() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    INSERT INTO wakes (kind, resource) SELECT DISTINCT kind, resource_id FROM new_rows WHERE status = 'pending';
    RETURN NULL;
END $$;
