-- Refuses a lease of a task that is not between 1 second and 1 day (FR400).
CREATE OR REPLACE FUNCTION farrier.check_lease(lease interval) RETURNS void LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF lease IS NULL OR lease < interval '1 second' OR lease > interval '1 day' THEN
        RAISE EXCEPTION 'a lease must last 1 second to 1 day, not %', coalesce(lease::text, 'null') USING ERRCODE = 'FR400';
    END IF;
END $$;
