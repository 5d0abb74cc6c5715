-- Ends a claimed task with its result and the evidence of the result, and enqueues its node. A result without evidence is accepted;
-- its evidence is null. FR400 for a malformed result or evidence, FR410 for a task that is not, or no longer, the claimant's. Called
-- by finish_task, finish_by_key and finish_work.
CREATE OR REPLACE FUNCTION farrier.end_task(claimant text, task bigint, lease_token uuid, succeeded boolean, result jsonb, evidence jsonb DEFAULT NULL) RETURNS void
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
DECLARE
    owner bigint;
    fault text := coalesce('the result ' || json_fault(result, 65536), 'the evidence ' || evidence_fault(evidence, claimant));
BEGIN
    IF succeeded IS NULL THEN RAISE EXCEPTION 'succeeded must be true or false' USING ERRCODE = 'FR400'; END IF;
    IF fault IS NOT NULL THEN RAISE EXCEPTION '%', fault USING ERRCODE = 'FR400'; END IF;
    UPDATE node_tasks t SET status = CASE WHEN succeeded THEN 'succeeded' ELSE 'failed' END, result = end_task.result, evidence = end_task.evidence,
           ended_at = farrier.now()
     WHERE t.id = end_task.task AND t.lease_token = end_task.lease_token AND t.claimed_by = claimant AND t.status = 'dispatched'
    RETURNING t.node_id INTO owner;
    IF NOT FOUND THEN PERFORM refuse_lease(claimant, task); END IF;
    PERFORM enqueue('node', owner);
END $$;
