-- Records one pulse of a controller and returns by how much the database's clock was set back since the last pulse;
-- null if it was not. A setback is also recorded in mends. A pulse after a gap is the end of an outage, in which agents
-- may not have been able to report (resumed_at). Controllers call it every two seconds; concurrent calls take
-- turns on the row of pulse. Differences of up to 10 seconds are ignored: calls that waited for each other, and clocks
-- that are adjusted in small steps, cause smaller differences, and every limit is longer.
CREATE OR REPLACE FUNCTION farrier.beat() RETURNS interval
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    now timestamptz := farrier.now();
    back interval;
    resumes boolean;
BEGIN
    SELECT p.at - now, now - p.at > interval '10 seconds' INTO back, resumes FROM pulse p FOR NO KEY UPDATE;
    IF back > interval '10 seconds' THEN
        INSERT INTO mends (back) VALUES (back);
    ELSE
        back := NULL;
    END IF;
    UPDATE pulse p
       SET at = CASE WHEN back IS NULL THEN greatest(p.at, now) ELSE now END,
           resumed_at = CASE WHEN resumes THEN now ELSE least(p.resumed_at, now) END;
    RETURN back;
END $$;
