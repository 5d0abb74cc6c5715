-- Refuses the lifetime of a bootstrap token unless it is longer than 0 and at most 30 days (FR400).
CREATE OR REPLACE FUNCTION farrier.check_ttl(ttl interval) RETURNS void LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF ttl IS NULL OR ttl <= interval '0' OR ttl > interval '30 days' THEN
        RAISE EXCEPTION 'the lifetime of a token must be longer than 0 and at most 30 days, not %', coalesce(ttl::text, 'null') USING ERRCODE = 'FR400';
    END IF;
END $$;
