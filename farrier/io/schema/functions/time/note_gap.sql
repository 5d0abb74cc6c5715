-- Brings one pulse up to date, which beat at last_beat, and records the gap if the pulse is or was lost. A gap that goes on ends now,
-- and the next call extends it. A pulse that nothing needs is never lost. Called by beat.
CREATE OR REPLACE FUNCTION farrier.note_gap(pulse text, last_beat timestamptz, now timestamptz) RETURNS void
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
DECLARE
    rules constants := read_constants();
    lost_after interval := CASE pulse WHEN 'agents' THEN least(rules.reach_lost, (read_settings()).offline_after / 3) ELSE rules.pulse_lost END;
    beat timestamptz := CASE pulse
        WHEN 'controllers' THEN now
        WHEN 'doors' THEN (SELECT max(d.renewed_at) FROM doors d WHERE d.kind = 'agents')
        -- While agents report, any newer heartbeat will do. Only the newest one shows when they stopped.
        WHEN 'agents' THEN CASE WHEN now - last_beat < lost_after / 2
            THEN (SELECT a.last_heartbeat_at FROM node_agents a WHERE a.by_door AND a.last_heartbeat_at > last_beat LIMIT 1)
            ELSE (SELECT max(a.last_heartbeat_at) FROM node_agents a WHERE a.by_door) END END;
    ended timestamptz;
    gap tstzmultirange := '{}';
BEGIN
    IF NOT needs_pulse(pulse) THEN
        beat := now;
    ELSE
        -- Until they are mended, times that were stored before a setback of the clock are in the future.
        beat := greatest(CASE WHEN beat > now THEN now ELSE beat END, last_beat);
        ended := CASE WHEN now - beat > lost_after THEN now ELSE beat END;
        IF ended - last_beat > lost_after THEN
            gap := tstzmultirange(tstzrange(last_beat, ended));
        END IF;
    END IF;
    UPDATE pulse p
       SET at = beat,
           gaps = coalesce((SELECT range_agg(l.g) FROM (
               SELECT g FROM unnest(p.gaps + gap) g WHERE upper(g) >= note_gap.now - interval '7 days' ORDER BY g DESC LIMIT 100) l), '{}')
     WHERE p.name = note_gap.pulse;
END $$;
