-- Checks the pair of a node and its live workflow; see check_pair. Deferred trigger on nodes. Runs as the owner, because before
-- PostgreSQL 18 a deferred trigger runs as the role that commits, which may have no right to read the tables.
CREATE OR REPLACE FUNCTION farrier.check_node_pair() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    PERFORM check_pair(NEW.id, NULL, NULL);
    RETURN NULL;
END $$;
