-- Records reports of a monitor: an array of {node, by, id, target, message, effect, expires_at, ends}. by says how node names the node:
-- name, serial, or null for its name or ID. With ends, the condition ends; otherwise it stands until expires_at (null: as long as the
-- grant says), if it is not stated again. Returns a verdict for each report: taken (if nothing ended, with the reason), unmapped (no such
-- node, or no condition), forbidden (the grant does not allow it), malformed, or full (the node has too many conditions of the monitor).
-- Reports that are not taken are counted and listed, and notes that ended to make room are counted in condition_drops. Wakes a node once,
-- and only if that changes which conditions it has. Locks rows in the order of nodes. Called by report_conditions, report_as, set_condition and end_condition.
CREATE OR REPLACE FUNCTION farrier.record_reports(granted farrier.monitors, reports jsonb)
    RETURNS TABLE (place integer, verdict text, reason text)
    LANGUAGE plpgsql SET search_path = farrier, pg_temp SET lock_timeout = '2s' AS $$
DECLARE
    of_source text := 'monitor:' || granted.name;
    one record;
    outcome text;
    changed bigint[] := '{}';
    most integer := (read_constants()).conditions_of_source;
    refused bigint := 0;
    drops bigint := 0;
BEGIN
    IF jsonb_typeof(reports) IS DISTINCT FROM 'array' OR jsonb_array_length(reports) > 5000 THEN
        RAISE EXCEPTION 'reports must be an array of at most 5000 objects' USING ERRCODE = 'FR400';
    END IF;
    FOR one IN
        SELECT g.ordinality::integer AS place, g.node, coalesce(g.id, '') AS id, coalesce(g.target, '') AS target,
               left(coalesce(g.message, ''), 500) AS message, coalesce(g.effect, 'note') AS effect,
               coalesce(g.expires_at, farrier.now() + granted.lasts) AS expires_at, coalesce(g.ends, false) AS ends,
               n.id AS node_id, n.alike, n.site,
               row_number() OVER (PARTITION BY n.id, coalesce(g.effect, 'note') = 'note', coalesce(g.ends, false) ORDER BY g.ordinality DESC) AS nth
          FROM ROWS FROM (jsonb_to_recordset(reports)
               AS (node text, by text, id text, target text, message text, effect text, expires_at timestamptz, ends boolean))
               WITH ORDINALITY g
         CROSS JOIN LATERAL (SELECT min(m.id) AS id, count(DISTINCT m.id) AS alike, min(m.site) AS site FROM reported_nodes(g.node, g.by) m) n
         ORDER BY n.id, g.node, g.id COLLATE "C", g.target COLLATE "C", g.ordinality
    LOOP
        place := one.place;
        SELECT f.verdict, f.reason INTO verdict, reason
          FROM report_fault(granted, one.node, one.alike, one.site, one.id, one.target, one.message, one.effect, one.expires_at, one.ends) f;
        IF one.ends AND coalesce(verdict, 'unmapped') = 'unmapped' THEN
            DELETE FROM node_conditions c
             WHERE verdict IS NULL AND (c.node, c.source, c.id, c.target) = (one.node_id, of_source, one.id, one.target);
            outcome := CASE WHEN FOUND THEN 'changed' ELSE 'kept' END;
            IF verdict IS NULL AND outcome = 'kept' THEN
                reason := format('nothing ended: %s states no condition %s of node %s; expected %s', of_source, concat_ws('/', one.id, nullif(one.target, '')),
                    left(plain_text(one.node), 100), coalesce('the id and the target of one of: ' || left((
                        SELECT string_agg(concat_ws('/', s.id, nullif(s.target, '')), ', ' ORDER BY s.id <> one.id, s.id, s.target)
                          FROM node_conditions s WHERE (s.node, s.source) = (one.node_id, of_source)), 300), 'none: it has ended, or was never stated'));
            END IF;
            DELETE FROM monitor_refusals r
             WHERE (r.monitor, r.node, r.id, r.target) = (granted.name, coalesce(one.node, ''), one.id, one.target);
        ELSIF verdict IS NULL AND one.effect = 'note' AND one.nth > most THEN
            -- Later reports of this call would end the note at once. To store it first would take a second for a thousand such notes.
            outcome := 'kept';
            drops := drops + 1;
        ELSIF verdict IS NULL THEN
            SELECT s.outcome, drops + coalesce(s.dropped, 0) INTO outcome, drops
              FROM state_condition(one.node_id, of_source, one.id, one.target, one.message, one.effect, one.expires_at) s;
            IF outcome = 'full' THEN
                verdict := outcome;
                reason := format('node %s has %s conditions of monitor %s, and none is a note', one.node, most, granted.name);
            END IF;
        ELSE
            outcome := 'refused';
        END IF;
        IF outcome IN ('full', 'refused') THEN
            PERFORM note_refusal(granted.name, one.node, one.id, one.target, verdict, reason);
            refused := refused + 1;
        ELSIF outcome = 'changed' THEN
            changed := changed || one.node_id;
        END IF;
        verdict := coalesce(verdict, 'taken');
        RETURN NEXT;
    END LOOP;
    INSERT INTO wakes (kind, resource) SELECT DISTINCT 'node', c FROM unnest(changed) c ORDER BY 2;
    IF drops > 0 THEN
        INSERT INTO condition_drops AS d (source, dropped) VALUES (of_source, drops)
            ON CONFLICT (source) DO UPDATE SET dropped = d.dropped + excluded.dropped;
    END IF;
    IF refused > 0 THEN PERFORM count_refusals(granted.name, refused); END IF;
EXCEPTION
    WHEN invalid_text_representation OR invalid_datetime_format OR datetime_field_overflow OR invalid_parameter_value THEN
        RAISE EXCEPTION 'a report has a value of a wrong type: %', SQLERRM
            USING ERRCODE = 'FR400', HINT = 'Expected an array of objects {node, by, id, target, message, effect, expires_at, ends}.';
END $$;
