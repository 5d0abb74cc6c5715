-- Applies the wake requests of a transaction at its COMMIT: increments wake_seq of each resource, makes a row that is not claimed
-- due now in lane 0, and notifies channel farrier_wake once for each kind. Goes over the rows in the order of kind and id, in
-- which every writer locks schedule rows, so two transactions cannot deadlock. FR404 for a resource that is not on the schedule;
-- one whose registration has not committed is not found either. Trigger function.
CREATE OR REPLACE FUNCTION farrier.apply_wakes() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    woken record;
    last_kind text := '';
BEGIN
    FOR woken IN
        SELECT DISTINCT r.kind, r.id FROM wake_requests r WHERE r.xact = pg_current_xact_id() ORDER BY r.kind, r.id
    LOOP
        UPDATE schedule s
           SET wake_seq = s.wake_seq + 1,
               lane = CASE WHEN s.claim_token IS NULL THEN 0 ELSE s.lane END,
               due_at = CASE WHEN s.claim_token IS NOT NULL THEN s.due_at           -- the commit of its run compares wake_seq
                             WHEN s.lane = 0 THEN least(s.due_at, farrier.now())    -- keeps its place in the lane
                             ELSE farrier.now() END
         WHERE s.kind = woken.kind AND s.id = woken.id;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'no % with id % is scheduled: it was never registered, or has been deleted', woken.kind, woken.id
                USING ERRCODE = 'FR404', HINT = 'A deleted resource takes no requests; a new registration makes a new id.';
        END IF;
        IF woken.kind <> last_kind THEN
            PERFORM pg_notify('farrier_wake', woken.kind);
            last_kind := woken.kind;
        END IF;
    END LOOP;
    DELETE FROM wake_requests WHERE xact = pg_current_xact_id();
    RETURN NULL;
END $$;
