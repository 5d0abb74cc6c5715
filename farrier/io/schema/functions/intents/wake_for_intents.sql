-- Enqueues the nodes of new intents. AFTER INSERT trigger on intents.
CREATE OR REPLACE FUNCTION farrier.wake_for_intents() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    INSERT INTO wakes (kind, resource) SELECT DISTINCT 'node', node_id FROM new_rows;
    RETURN NULL;
END $$;
