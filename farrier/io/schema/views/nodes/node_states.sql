-- The clocks of the layers in table nodes, and whether a pause stops them. A pause stops neither a deletion nor the end of a
-- cancelled workflow, but always the work on management. The clock of `enroll` begins when a verification becomes pending, and runs
-- on while farrier verifies the BMC, so that a failed verification does not restart it.
CREATE OR REPLACE VIEW farrier.node_states AS
SELECT n.id AS node_id, 'node' AS kind, n.status AS state, n.status_entered_at AS since, n.site, n.model,
       n.paused IS NOT NULL AND NOT n.deleting
       AND (n.live_workflow_id IS NULL
            OR (SELECT w.being_cancelled FROM farrier.node_workflows w
                 WHERE w.kind = n.live_workflow_kind AND w.id = n.live_workflow_id) IS NOT TRUE) AS paused
  FROM farrier.nodes n
UNION ALL
SELECT n.id AS node_id, 'management' AS kind, n.management AS state,
       coalesce(CASE n.management WHEN 'enroll' THEN coalesce(n.bmc ->> 'pending_at', n.bmc ->> 'asked_at')::timestamptz END, n.management_entered_at) AS since,
       n.site, n.model,
       n.paused IS NOT NULL AS paused
  FROM farrier.nodes n
 WHERE n.status <> 'deleted'
UNION ALL
SELECT n.id AS node_id, 'management' AS kind, 'enroll' AS state,
       coalesce(n.bmc ->> 'pending_at', n.bmc ->> 'asked_at')::timestamptz AS since,
       n.site, n.model,
       n.paused IS NOT NULL AS paused
  FROM farrier.nodes n
 WHERE n.management = 'verifying' AND n.status <> 'deleted';
