-- One row for each node that is not deleted, for schedulers: its status, the clock of the status, whether the node is
-- schedulable, and whether a brake keeps it in service although it has a cause to leave (held).
-- `restored_at` is set while the node is held after the restore of a backup. It shows no workflow and no stage.
CREATE OR REPLACE VIEW farrier.node_inventory AS
SELECT n.id, n.name, n.site, n.model, n.labels, n.status, n.status_entered_at, n.management,
       n.status = 'active' AND n.paused IS NULL
       AND NOT EXISTS (SELECT FROM farrier.restore_holds h WHERE h.kind = 'node' AND h.id = n.id AND h.lifted_at IS NULL) AS schedulable,
       n.management = 'unmanaged' AS unmanaged,
       n.paused ->> 'reason' AS paused,
       CASE WHEN n.status = 'quarantined' THEN (SELECT q.cause FROM farrier.node_quarantines q WHERE q.node = n.id) END AS quarantine_cause,
       CASE WHEN n.status = 'quarantined' THEN (SELECT q.reason FROM farrier.node_quarantines q WHERE q.node = n.id) END AS quarantine_reason,
       a.last_heartbeat_at, n.created_at,
       -- These are subqueries, so that a column that is not selected costs nothing.
       (SELECT c.state_limit FROM farrier.node_clocks c WHERE c.node_id = n.id AND c.kind = 'node') AS status_limit,
       (SELECT c.above_since FROM farrier.node_clocks c WHERE c.node_id = n.id AND c.kind = 'node') AS status_above_since,
       n.rack,
       n.status = 'active' AND EXISTS (SELECT FROM farrier.braked_nodes b WHERE b.id = n.id) AS held,
       (SELECT h.since FROM farrier.restore_holds h WHERE h.kind = 'node' AND h.id = n.id AND h.lifted_at IS NULL) AS restored_at
  FROM farrier.nodes n LEFT JOIN farrier.node_agents a ON a.node_id = n.id
 WHERE n.status <> 'deleted';
