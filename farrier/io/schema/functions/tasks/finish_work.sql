-- Ends a task of a worker. May be repeated: after a lost reply the same call changes nothing and succeeds. `evidence` is that of
-- finish_task. FR403 for a login without a grant, FR410 for a task that is not, or no longer, the worker's.
CREATE OR REPLACE FUNCTION farrier.finish_work(task bigint, lease_token uuid, succeeded boolean, result jsonb DEFAULT NULL, evidence jsonb DEFAULT NULL) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    IF NOT is_ended_so(task, lease_token, succeeded) THEN
        PERFORM end_task('worker ' || (prove_worker()).login, task, lease_token, succeeded, result, evidence);
    END IF;
END $$;
