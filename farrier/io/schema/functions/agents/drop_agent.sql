-- Deletes the agent of a deleted node: its key is invalid from then on, and gauges do not count it. Trigger function.
CREATE OR REPLACE FUNCTION farrier.drop_agent() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    DELETE FROM node_agents a WHERE a.node_id = NEW.id;
    RETURN NULL;
END $$;
