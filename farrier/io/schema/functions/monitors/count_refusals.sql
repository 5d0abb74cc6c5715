-- Counts reports that note_refusal has listed, and keeps the newest hundred rows of the monitor. The row of the monitor is locked last,
-- so that reports of one monitor at the same time do not deadlock.
CREATE OR REPLACE FUNCTION farrier.count_refusals(of_monitor text, reports bigint) RETURNS void
    LANGUAGE sql SET search_path = farrier, pg_temp AS $$
    UPDATE monitors m SET refused = m.refused + reports WHERE m.name = of_monitor;
    DELETE FROM monitor_refusals r USING (
        SELECT o.node, o.id, o.target FROM monitor_refusals o WHERE o.monitor = of_monitor
         ORDER BY o.last_at DESC, o.first_at DESC, o.node, o.id, o.target OFFSET 100) old
     WHERE r.monitor = of_monitor AND (r.node, r.id, r.target) = (old.node, old.id, old.target);
$$;
