-- Extends the lease of a worker's task. FR410: the task is no longer this claimant's, who must stop.
CREATE OR REPLACE FUNCTION farrier.renew_work(task bigint, lease_token uuid, lease interval DEFAULT '60 seconds') RETURNS timestamptz
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    RETURN keep_task('worker ' || (prove_worker()).login, task, lease_token, lease);
END $$;
