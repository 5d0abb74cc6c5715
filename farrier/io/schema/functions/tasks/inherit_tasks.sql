-- Assigns the live tasks of nodes to the decommission that begins in this commit. A node has such tasks only if its
-- previous decommission was lost, and its agent may be at work on them. Skips a task that the agent is just finishing:
-- the agent's transaction waits for this commit. Called by write_nodes.
CREATE OR REPLACE FUNCTION farrier.inherit_tasks(begun jsonb) RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    UPDATE farrier.node_tasks t SET workflow_id = n.live_workflow_id
      FROM farrier.nodes n
     WHERE n.id = t.node_id AND t.id = ANY (ARRAY(
        SELECT o.id FROM farrier.node_tasks o JOIN jsonb_to_recordset(begun) r (node_id bigint) ON r.node_id = o.node_id
         WHERE o.ended_at IS NULL ORDER BY o.id FOR NO KEY UPDATE OF o SKIP LOCKED));
END $$;
