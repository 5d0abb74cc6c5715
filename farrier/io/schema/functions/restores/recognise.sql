-- If this database was restored from a backup, holds every resource. Controllers call it before they join. Concurrent calls take
-- turns. Returns the number of resources that this call held; null if the database was not restored.
CREATE OR REPLACE FUNCTION farrier.recognise() RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    IF NOT is_restored() THEN
        RETURN NULL;
    END IF;
    LOCK TABLE installation IN SHARE ROW EXCLUSIVE MODE;
    RETURN CASE WHEN is_restored() THEN hold_restored() END;
END $$;
