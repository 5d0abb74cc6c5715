-- Records one pulse of a controller and returns by how much the database's clock was set back since the last pulse;
-- null if it was not. A setback is also recorded in mends. Controllers call it every two seconds; concurrent calls take
-- turns on the rows of pulse. The time of an outage of all controllers does not count towards the expiry of conditions. Also records in
-- pulse which pulses are or were lost, and in history which nodes no brake holds any more, and deletes the rows of doors that have
-- been silent for an hour, except rows that their sessions have locked.
CREATE OR REPLACE FUNCTION farrier.beat() RETURNS interval
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    now timestamptz;
    back interval;
BEGIN
    PERFORM FROM pulse p ORDER BY p.name FOR NO KEY UPDATE;
    now := farrier.now();
    back := (SELECT p.at - now FROM pulse p WHERE p.name = 'controllers');
    IF back > (read_constants()).pulse_lost THEN
        INSERT INTO mends (back) VALUES (back);
        UPDATE pulse p SET at = least(p.at, now), gaps = coalesce((SELECT range_agg(g) FROM unnest(p.gaps) g WHERE upper(g) <= now), '{}');
    ELSE
        IF back < -(read_constants()).pulse_lost THEN
            UPDATE node_conditions c SET expires_at = c.expires_at - back WHERE c.expires_at > now + back;
        END IF;
        back := NULL;
        PERFORM note_gap(p.name, p.at, now) FROM pulse p;
    END IF;
    PERFORM end_holds() WHERE EXISTS (SELECT FROM held_nodes);
    DELETE FROM doors WHERE id IN (SELECT d.id FROM doors d WHERE d.renewed_at < now - interval '1 hour' FOR UPDATE SKIP LOCKED);
    RETURN back;
END $$;
