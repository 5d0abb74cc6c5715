-- Writes sections `ends` and `tasks` of a commit of nodes: ends tasks, then creates tasks of the live decommission.
-- Creates no task of a type of which the node has a live task. Looks up that live task first, because the unique index
-- alone would wait for an agent that is just finishing it. Called by write_nodes.
CREATE OR REPLACE FUNCTION farrier.write_tasks(changes jsonb) RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    UPDATE farrier.node_tasks t
       SET status = r.status, result = to_jsonb(r.result), ended_at = farrier.now()
      FROM jsonb_to_recordset(changes -> 'ends') r (task bigint, status text, result text)
     WHERE t.id = r.task AND t.ended_at IS NULL;
    INSERT INTO farrier.node_tasks (node_id, workflow_id, type, status, attempt, failures, result, ended_at)
    SELECT n.id, n.live_workflow_id, r.type, coalesce(r.ended, 'queued'), r.attempt, r.failures,
           to_jsonb(r.result), CASE WHEN r.ended IS NOT NULL THEN farrier.now() END
      FROM jsonb_to_recordset(changes -> 'tasks')
           AS r (run bigint, type text, ended text, attempt integer, failures integer, result text)
      JOIN farrier.nodes n ON n.id = r.run
     WHERE r.ended IS NOT NULL
        OR NOT EXISTS (SELECT FROM farrier.node_tasks t
                        WHERE t.node_id = n.id AND t.type = r.type AND t.ended_at IS NULL)
        ON CONFLICT (node_id, type) WHERE ended_at IS NULL DO NOTHING;
END $$;
