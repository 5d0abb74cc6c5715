-- Raises FR410 for a task that is not, or no longer, the claimant's. The error has the status of the task only if this claimant
-- claimed it.
CREATE OR REPLACE FUNCTION farrier.refuse_lease(claimant text, task bigint) RETURNS void
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
DECLARE
    state text := (SELECT t.status FROM node_tasks t WHERE t.id = refuse_lease.task AND t.claimed_by = claimant);
BEGIN
    RAISE EXCEPTION 'this lease token is not the current one of task % (status %)', task, coalesce(state, 'unknown')
        USING ERRCODE = 'FR410', HINT = 'The task was finished, cancelled or issued again: stop the work and claim a task.';
END $$;
