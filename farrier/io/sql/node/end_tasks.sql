-- Ends tasks that no agent finished, and says which: one that ended meanwhile, or is being finished right now, is left
-- out, and its run is decided anew. Waiting for its agent's COMMIT would deadlock, because that one waits for the schedule
-- row to wake it.
WITH free AS MATERIALIZED (
    SELECT t.id, r.status, r.result
      FROM unnest($1::bigint[], $2::text[], $3::text[]) AS r (id, status, result)
      JOIN farrier.node_tasks t ON t.id = r.id AND t.status IN ('queued', 'dispatched')
     ORDER BY t.id
       FOR NO KEY UPDATE OF t SKIP LOCKED
)
UPDATE farrier.node_tasks t
   SET status = free.status, result = to_jsonb(free.result), ended_at = farrier.now()
  FROM free
 WHERE t.id = free.id AND t.status IN ('queued', 'dispatched')
RETURNING t.id
