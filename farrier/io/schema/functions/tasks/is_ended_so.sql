-- Returns whether the task ended with this result under this lease token: then an earlier call, whose reply was lost,
-- ended it. Locks the task first, because the earlier call may not have committed yet.
CREATE OR REPLACE FUNCTION farrier.is_ended_so(task bigint, lease_token uuid, succeeded boolean) RETURNS boolean
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
BEGIN
    PERFORM FROM node_tasks t WHERE t.id = task AND t.lease_token = is_ended_so.lease_token FOR NO KEY UPDATE;
    RETURN EXISTS (SELECT FROM node_tasks t WHERE t.id = task AND t.lease_token = is_ended_so.lease_token
                      AND t.status = CASE WHEN succeeded THEN 'succeeded' ELSE 'failed' END);
END $$;
