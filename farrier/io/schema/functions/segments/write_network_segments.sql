-- Writes the segments of a commit; the writer of kind network_segment. Waits for no client. Sections besides those of
-- write_resources: `closes` [{run, unused}], segments that begin to drain. Such a run is due again in a second while a
-- client allocates or releases an address of the segment, and at once if the segment has addresses and the run's
-- snapshot had none, or the reverse. `grows` [{run, site}], segments that get more prefixes. While another transaction
-- adds prefixes at the site, such a run is due again in a second.
CREATE OR REPLACE FUNCTION farrier.write_network_segments(changes jsonb) RETURNS TABLE (run bigint, due_in interval)
    LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    held bigint[] := '{}';
    other bigint[] := '{}';
BEGIN
    IF changes ? 'closes' THEN
        WITH asked AS (
            SELECT c.run, c.unused FROM jsonb_to_recordset(changes -> 'closes') c (run bigint, unused boolean)
        ), free AS MATERIALIZED (
            SELECT u.segment, u.allocated FROM farrier.segment_usage u WHERE u.segment IN (SELECT a.run FROM asked a)
             ORDER BY u.segment FOR NO KEY UPDATE SKIP LOCKED
        )
        SELECT coalesce(array_agg(a.run) FILTER (WHERE f.segment IS NULL), '{}'),
               coalesce(array_agg(a.run) FILTER (WHERE (f.allocated = 0) <> a.unused), '{}')
          INTO held, other FROM asked a LEFT JOIN free f ON f.segment = a.run;
    END IF;
    IF changes ? 'grows' THEN
        held := held || ARRAY(SELECT c.run FROM jsonb_to_recordset(changes -> 'grows') c (run bigint, site text)
                               WHERE NOT farrier.try_lock_key('segment_prefixes', c.site));
    END IF;
    IF held <> '{}' OR other <> '{}' THEN
        RETURN QUERY SELECT h, interval '1 second' FROM unnest(held) h;
        RETURN QUERY SELECT o, interval '0' FROM unnest(other) o;
        changes := farrier.runs_without(changes, held || other);
        IF changes = '{}' THEN RETURN; END IF;
    END IF;
    RETURN QUERY SELECT w.run, w.due_in FROM farrier.write_resources(changes) w;
END $$;
