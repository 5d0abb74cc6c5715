-- Nodes whose machine a workflow is changing in MAAS, and when its stage or status last changed (began_at): the stage waits for a
-- reading after that time.
CREATE OR REPLACE VIEW farrier.maas_motion AS
SELECT n.id AS node_id, n.site, n.maas_id AS system_id, greatest(w.stage_entered_at, w.status_entered_at) AS began_at
  FROM farrier.node_workflows w
  JOIN farrier.nodes n ON n.id = w.node_id AND n.live_workflow_kind = w.kind AND n.live_workflow_id = w.id
 WHERE w.ended_at IS NULL AND w.status = ANY (ARRAY(SELECT s.status FROM farrier.workflow_statuses s WHERE s.at_work))
   AND w.mode = ANY (ARRAY(SELECT m.mode FROM farrier.workflow_modes m WHERE m.uses_maas)) AND n.maas_id IS NOT NULL;
