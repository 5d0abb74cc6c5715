-- A wake says of which kind it is, so that the loops of all other kinds do not look for it, too.

CREATE OR REPLACE FUNCTION farrier.apply_wakes() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    missing record;
BEGIN
    PERFORM FROM schedule s
      JOIN (SELECT DISTINCT kind, id FROM wake_requests WHERE xact = pg_current_xact_id()) w USING (kind, id)
     ORDER BY s.kind, s.id
       FOR NO KEY UPDATE OF s;
    SELECT w.kind, w.id INTO missing
      FROM wake_requests w
     WHERE w.xact = pg_current_xact_id()
       AND NOT EXISTS (SELECT FROM schedule s WHERE s.kind = w.kind AND s.id = w.id)
     LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'no % with id % is scheduled: it was never registered, or has been deleted', missing.kind, missing.id
            USING ERRCODE = 'FR404', HINT = 'A deleted resource takes no requests; a new registration makes a new id.';
    END IF;
    UPDATE schedule s
       SET wake_seq = s.wake_seq + 1,
           lane = CASE WHEN s.claim_token IS NULL THEN 0 ELSE s.lane END,
           due_at = CASE WHEN s.claim_token IS NOT NULL THEN s.due_at           -- its release will see wake_seq
                         WHEN s.lane = 0 THEN least(s.due_at, farrier.now())    -- keeps its place among the woken
                         ELSE farrier.now() END
      FROM (SELECT DISTINCT kind, id FROM wake_requests WHERE xact = pg_current_xact_id()) w
     WHERE s.kind = w.kind AND s.id = w.id;
    PERFORM pg_notify('farrier_wake', w.kind) FROM (SELECT DISTINCT kind FROM wake_requests WHERE xact = pg_current_xact_id()) w;
    DELETE FROM wake_requests WHERE xact = pg_current_xact_id();
    RETURN NULL;
END $$;
