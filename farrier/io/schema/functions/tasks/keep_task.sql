-- Extends the lease of a claimed task and returns its new end. FR410 for a task that is not, or no longer, the claimant's, who
-- must stop work. Called by renew_task, renew_by_key and renew_work.
CREATE OR REPLACE FUNCTION farrier.keep_task(claimant text, task bigint, lease_token uuid, lease interval) RETURNS timestamptz
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
DECLARE
    until timestamptz;
BEGIN
    PERFORM check_lease(lease);
    UPDATE node_tasks t SET lease_until = farrier.now() + keep_task.lease
     WHERE t.id = keep_task.task AND t.lease_token = keep_task.lease_token AND t.claimed_by = claimant AND t.status = 'dispatched'
    RETURNING t.lease_until INTO until;
    IF NOT FOUND THEN PERFORM refuse_lease(claimant, task); END IF;
    RETURN until;
END $$;
