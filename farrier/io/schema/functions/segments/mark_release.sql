-- Sets segment_usage.last_released_at at COMMIT, when other transactions can see the release: the time of a drain
-- counts from COMMIT, even after a long transaction. Deferred trigger on segment_usage.
CREATE OR REPLACE FUNCTION farrier.mark_release() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    UPDATE segment_usage u SET last_released_at = farrier.now()
     WHERE u.segment = NEW.segment AND (u.last_released_at IS NULL OR u.last_released_at < farrier.now());
    RETURN NULL;
END $$;
