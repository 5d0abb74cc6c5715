-- As the owner: before PostgreSQL 18 a deferred trigger runs as whoever commits, who may have no right to look.
CREATE OR REPLACE FUNCTION farrier.check_node_pair() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    PERFORM farrier.check_pair(NEW.id, NULL, NULL);
    RETURN NULL;
END $$;
