-- A deleted node has no agent: none may speak for it any more, and none is to be counted.
CREATE OR REPLACE FUNCTION farrier.drop_agent() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    DELETE FROM node_agents a WHERE a.node_id = NEW.id;
    RETURN NULL;
END $$;
