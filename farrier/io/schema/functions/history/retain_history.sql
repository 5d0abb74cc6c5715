-- Executes the next step of the pass over old history, if the step is due and no other session executes it: prunes up
-- to `most` rows that are older than `keep`. The steps of a pass are `pause` apart, and the passes are `every` apart.
-- Called by controllers. The row of history_retention is the lock and stores the progress, so another controller
-- continues the pass of a controller that died. Returns when the next step is due, whether this step ended the pass,
-- and the counts and the duration of the pass so far.
CREATE OR REPLACE FUNCTION farrier.retain_history(keep interval, most integer, pause interval, every interval)
    RETURNS TABLE (due_in interval, ended boolean, looked bigint, deleted bigint, took interval)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
#variable_conflict use_column
DECLARE
    pass farrier.history_retention;
    step record;
    over boolean;
BEGIN
    SELECT * INTO pass FROM farrier.history_retention FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN QUERY SELECT pause, false, 0::bigint, 0::bigint, interval '0';
        RETURN;
    END IF;
    IF pass.due_at > farrier.now() THEN
        RETURN QUERY SELECT pass.due_at - farrier.now(), false, pass.looked, pass.deleted, interval '0';
        RETURN;
    END IF;
    IF pass.began_at IS NULL THEN
        pass.began_at := farrier.now();
        pass.looked := 0;
        pass.deleted := 0;
    END IF;
    SELECT * INTO step
      FROM farrier.prune_history(farrier.now() - keep, pass.at, pass.id, pass.version, pass.kind, pass.layer, most, true);
    over := step.looked < most;
    UPDATE farrier.history_retention r
       SET due_at = farrier.now() + CASE WHEN over THEN every ELSE pause END,
           began_at = CASE WHEN over THEN NULL ELSE pass.began_at END,
           looked = pass.looked + step.looked, deleted = pass.deleted + step.deleted,
           at = CASE WHEN over THEN NULL ELSE step.at END, id = CASE WHEN over THEN NULL ELSE step.id END,
           version = CASE WHEN over THEN NULL ELSE step.version END,
           kind = CASE WHEN over THEN NULL ELSE step.kind END, layer = CASE WHEN over THEN NULL ELSE step.layer END;
    RETURN QUERY SELECT CASE WHEN over THEN every ELSE pause END, over, pass.looked + step.looked, pass.deleted + step.deleted,
                        farrier.now() - pass.began_at;
END $$;
