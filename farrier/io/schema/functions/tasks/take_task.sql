-- Claims for the claimant the oldest queued task of these types, of one node (null: any) at one site (null: any), and
-- enqueues the task's node. Skips tasks of nodes that are paused, and tasks that another transaction has locked. Refuses a list of
-- types that is null or too long (FR400). A type that the model does not have is accepted: no task has it. Called by claim_for_agent
-- and claim_work.
CREATE OR REPLACE FUNCTION farrier.take_task(claimant text, types text[], of_node bigint, of_site text, lease interval, claim_key uuid DEFAULT NULL)
    RETURNS TABLE (task bigint, node_id bigint, node_name text, type text, params jsonb, attempt integer, lease_token uuid, lease_until timestamptz)
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
#variable_conflict use_column
BEGIN
    PERFORM check_lease(lease);
    IF types IS NULL OR cardinality(types) > 64 OR EXISTS (SELECT FROM unnest(types) t WHERE char_length(t) > 64) THEN
        RAISE EXCEPTION 'expected at most 64 task types of at most 64 characters each'
            USING ERRCODE = 'FR400', HINT = $hint$Name the types, such as '{node.drain,node.uninstall}'.$hint$;
    END IF;
    RETURN QUERY
    WITH next AS (
        SELECT t.id, n.name FROM node_tasks t JOIN nodes n ON n.id = t.node_id
         WHERE t.status = 'queued' AND t.type = ANY (types) AND n.paused IS NULL
           AND (of_node IS NULL OR t.node_id = of_node) AND (of_site IS NULL OR n.site = of_site)
         ORDER BY t.id LIMIT 1 FOR UPDATE OF t SKIP LOCKED),
    taken AS (
        UPDATE node_tasks t
           SET status = 'dispatched', claimed_by = claimant, lease_token = gen_random_uuid(), claim_key = take_task.claim_key,
               lease_until = farrier.now() + take_task.lease, dispatched_at = farrier.now()
          FROM next WHERE t.id = next.id
        RETURNING t.id, t.node_id, next.name, t.type, t.params, t.attempt, t.lease_token, t.lease_until),
    woken AS (INSERT INTO wakes (kind, resource) SELECT 'node', taken.node_id FROM taken)
    SELECT * FROM taken;
END $$;
