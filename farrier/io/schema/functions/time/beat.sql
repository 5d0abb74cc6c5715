-- Records one pulse of a controller and returns by how much the database's clock was set back since the last pulse;
-- null if it was not. A setback is also recorded in mends. Controllers call it every two seconds; concurrent calls take
-- turns on the row of pulse. Differences of up to 10 seconds are ignored: calls that waited for each other, and clocks
-- that are adjusted in small steps, cause smaller differences, and every limit is longer. A longer gap between pulses is
-- recorded in pulse_gaps.
CREATE OR REPLACE FUNCTION farrier.beat() RETURNS interval
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    last timestamptz;
    now timestamptz;
    back interval;
BEGIN
    SELECT p.at INTO last FROM pulse p FOR NO KEY UPDATE;
    now := farrier.now();
    IF last - now > interval '10 seconds' THEN
        back := last - now;
        INSERT INTO mends (back) VALUES (back);
        DELETE FROM pulse_gaps g WHERE g.until > now;
    ELSIF now - last > interval '10 seconds' THEN
        INSERT INTO pulse_gaps (until, lasted) VALUES (now, now - last) ON CONFLICT DO NOTHING;
        DELETE FROM pulse_gaps g WHERE g.until < now - interval '7 days';
    END IF;
    UPDATE pulse p SET at = CASE WHEN back IS NULL THEN greatest(p.at, now) ELSE now END;
    RETURN back;
END $$;
