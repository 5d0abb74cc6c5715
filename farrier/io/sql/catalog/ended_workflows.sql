-- After a change of the statuses that end a workflow: ends workflows or makes them live again by their statuses, and
-- updates the live workflows of their nodes. The deferred triggers refuse a node whose status does not match; the
-- migration then fails.
WITH onboardings AS (
    UPDATE farrier.node_onboardings w SET ended_at = CASE WHEN s.ended THEN w.status_entered_at END
      FROM farrier.workflow_statuses s
     WHERE s.status = w.status AND s.ended <> (w.ended_at IS NOT NULL)
    RETURNING 'onboarding' AS kind, w.id, w.node_id, s.ended),
decommissions AS (
    UPDATE farrier.node_decommissions w SET ended_at = CASE WHEN s.ended THEN w.status_entered_at END
      FROM farrier.workflow_statuses s
     WHERE s.status = w.status AND s.ended <> (w.ended_at IS NOT NULL)
    RETURNING 'decommission' AS kind, w.id, w.node_id, s.ended)
UPDATE farrier.nodes n
   SET live_workflow_kind = CASE WHEN NOT c.ended THEN c.kind END, live_workflow_id = CASE WHEN NOT c.ended THEN c.id END
  FROM (SELECT * FROM onboardings UNION ALL SELECT * FROM decommissions) c
 WHERE n.id = c.node_id
   AND (NOT c.ended OR (n.live_workflow_kind, n.live_workflow_id) = (c.kind, c.id))
