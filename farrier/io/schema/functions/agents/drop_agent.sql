-- Deletes the agent of a deleted node, so that the agent's key is invalid and gauges do not count the agent. Trigger
-- function.
CREATE OR REPLACE FUNCTION farrier.drop_agent() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    DELETE FROM node_agents a WHERE a.node_id = NEW.id;
    RETURN NULL;
END $$;
