-- The clocks of the workflows of nodes, of both kinds, ended ones included: the clock of the status, that of the stage, and
-- that of the whole workflow (state end_to_end). The clock of a stage runs on while a failed stage waits for its next
-- attempt, so that retries do not restart it.
CREATE OR REPLACE VIEW farrier.workflow_clocks AS
SELECT w.kind, w.id, w.node_id, c.state, c.substate, c.since, w.being_cancelled, w.ended_at
  FROM farrier.node_workflows w
 CROSS JOIN LATERAL (VALUES
       (w.status, w.substate, w.entered_at),
       ((SELECT 'running' AS state FROM farrier.workflow_statuses s WHERE s.status = w.status AND s.failed AND s.at_work), w.stage, w.stage_entered_at),
       ('end_to_end', '', w.mode_given_at)) AS c (state, substate, since)
 WHERE c.state IS NOT NULL AND c.substate IS NOT NULL AND c.since IS NOT NULL;
