-- Extends the lease of a worker's task and returns its new end. FR403 for a login without a grant, FR410 for a task that is not,
-- or no longer, the worker's, which must stop work.
CREATE OR REPLACE FUNCTION farrier.renew_work(task bigint, lease_token uuid, lease interval DEFAULT '60 seconds') RETURNS timestamptz
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    RETURN keep_task('worker ' || (prove_worker()).login, task, lease_token, lease);
END $$;
