-- Records the first state of a new region in history. AFTER INSERT trigger on maas_regions.
CREATE OR REPLACE FUNCTION farrier.begin_region() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    PERFORM record_beginning('maas_region', NEW.id, NEW.version, 'state', NEW.state, 'site ' || NEW.site, 'configured by ' || session_user);
    RETURN NULL;
END $$;
