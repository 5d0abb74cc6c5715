-- One pulse. Answers by how much the clock was set back since the last one, null if it was not. Pulses that waited for each
-- other, and clocks that are kept by small steps, are within 10 s; no limit is as short.
CREATE OR REPLACE FUNCTION farrier.beat() RETURNS interval
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    now timestamptz := farrier.now();
    back interval;
BEGIN
    SELECT p.at - now INTO back FROM pulse p FOR NO KEY UPDATE;
    IF back > interval '10 seconds' THEN
        INSERT INTO mends (back) VALUES (back);
    ELSE
        back := NULL;
    END IF;
    UPDATE pulse p SET at = CASE WHEN back IS NULL THEN greatest(p.at, now) ELSE now END;
    RETURN back;
END $$;
