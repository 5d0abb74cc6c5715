-- The workflows of nodes, of both kinds, ended ones included. substate is the stage of a running workflow, and empty
-- for any other. entered_at is when the clock of the stage began if the workflow is running, or else when the clock of
-- its status began. being_cancelled: its work is undone for good; a pause does not stop this. leave_out: stages that it omits.
-- cleaned_by: who cleans the machine.
CREATE OR REPLACE VIEW farrier.node_workflows AS
SELECT w.kind, w.id, w.node_id, w.mode, w.status, w.status_entered_at, w.stage, w.stage_entered_at, w.attempt, w.next_attempt_at,
       w.failure_class, w.failure_detail, w.after_undo, w.mode_given_at, w.created_at, w.ended_at,
       CASE w.status WHEN 'running' THEN coalesce(w.stage, '') ELSE '' END AS substate,
       CASE w.status WHEN 'running' THEN w.stage_entered_at ELSE w.status_entered_at END AS entered_at,
       w.skipped,
       w.status = 'compensating' AND w.after_undo IS DISTINCT FROM 'restart' AS being_cancelled,
       w.leave_out,
       w.cleaned_by
  FROM (SELECT 'onboarding' AS kind, o.id, o.node_id, o.mode, o.status, o.status_entered_at, o.stage, o.stage_entered_at, o.attempt,
               o.next_attempt_at, o.failure_class, o.failure_detail, o.after_undo, o.mode_given_at, o.created_at, o.ended_at, o.skipped,
               coalesce(o.options -> 'leave_out', '[]') AS leave_out, o.options ->> 'cleaned_by' AS cleaned_by
          FROM farrier.node_onboardings o
        UNION ALL
        SELECT 'decommission' AS kind, d.id, d.node_id, d.mode, d.status, d.status_entered_at, d.stage, d.stage_entered_at, d.attempt,
               d.next_attempt_at, d.failure_class, d.failure_detail, d.after_undo, d.mode_given_at, d.created_at, d.ended_at, d.skipped,
               coalesce(d.options -> 'leave_out', '[]') AS leave_out, d.options ->> 'cleaned_by' AS cleaned_by
          FROM farrier.node_decommissions d) w;
