-- An address is back when others see that it is: a drain counts from the COMMIT, however long the transaction was.
CREATE OR REPLACE FUNCTION farrier.mark_release() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    UPDATE segment_usage u SET last_released_at = farrier.now()
     WHERE u.segment = NEW.segment AND (u.last_released_at IS NULL OR u.last_released_at < farrier.now());
    RETURN NULL;
END $$;
