-- Workflows that go on or end. A clock starts anew only when its value changes.
UPDATE farrier.node_decommissions w
   SET mode = r.mode,
       status = r.status,
       status_entered_at = CASE WHEN w.status = r.status THEN w.status_entered_at ELSE farrier.now() END,
       stage = r.stage,
       stage_entered_at = CASE WHEN w.stage IS NOT DISTINCT FROM r.stage THEN w.stage_entered_at ELSE farrier.now() END,
       attempt = r.attempt,
       next_attempt_at = r.next_attempt_at,
       failure_class = r.failure_class,
       failure_detail = r.failure_detail,
       stop_requested = r.stop_requested,
       after_undo = r.after_undo,
       mode_given_at = r.mode_given_at,
       options = r.options,
       skipped = r.skipped,
       ended_at = CASE WHEN r.status IN ('completed', 'cancelled', 'reconciled') THEN farrier.now() END
  FROM jsonb_populate_recordset(NULL::farrier.node_decommissions, $1::jsonb) r
 WHERE w.id = r.id
