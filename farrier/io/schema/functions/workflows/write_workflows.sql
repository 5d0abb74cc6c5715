-- Writes the workflows of a commit of nodes: sections `new_onboardings`, `new_decommissions`, `onboardings` and `decommissions`.
-- The clocks of status and stage restart only where the value changes. Called by write_nodes.
CREATE OR REPLACE FUNCTION farrier.write_workflows(changes jsonb) RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    IF changes ? 'new_onboardings' THEN
        INSERT INTO farrier.node_onboardings (node_id, mode, status, stage, attempt, next_attempt_at, mode_given_at, options, memo, skipped)
        SELECT r.node_id, r.mode, r.status, r.stage, r.attempt, r.next_attempt_at, r.mode_given_at, r.options, r.memo, r.skipped
          FROM jsonb_populate_recordset(NULL::farrier.node_onboardings, changes -> 'new_onboardings') r;
    END IF;
    IF changes ? 'new_decommissions' THEN
        INSERT INTO farrier.node_decommissions (node_id, mode, status, stage, attempt, next_attempt_at, mode_given_at, options, memo, skipped)
        SELECT r.node_id, r.mode, r.status, r.stage, r.attempt, r.next_attempt_at, r.mode_given_at, r.options, r.memo, r.skipped
          FROM jsonb_populate_recordset(NULL::farrier.node_decommissions, changes -> 'new_decommissions') r;
    END IF;
    IF changes ? 'onboardings' THEN
        UPDATE farrier.node_onboardings w
           SET mode = r.mode, status = r.status, stage = r.stage, attempt = r.attempt, next_attempt_at = r.next_attempt_at,
               status_entered_at = CASE WHEN w.status = r.status THEN w.status_entered_at ELSE farrier.now() END,
               stage_entered_at = CASE WHEN w.stage IS NOT DISTINCT FROM r.stage THEN w.stage_entered_at ELSE farrier.now() END,
               failure_class = r.failure_class, failure_detail = r.failure_detail, stop_requested = r.stop_requested,
               after_undo = r.after_undo, mode_given_at = r.mode_given_at, options = r.options, memo = r.memo, skipped = r.skipped
          FROM jsonb_populate_recordset(NULL::farrier.node_onboardings, changes -> 'onboardings') r
         WHERE w.id = r.id;
    END IF;
    IF changes ? 'decommissions' THEN
        UPDATE farrier.node_decommissions w
           SET mode = r.mode, status = r.status, stage = r.stage, attempt = r.attempt, next_attempt_at = r.next_attempt_at,
               status_entered_at = CASE WHEN w.status = r.status THEN w.status_entered_at ELSE farrier.now() END,
               stage_entered_at = CASE WHEN w.stage IS NOT DISTINCT FROM r.stage THEN w.stage_entered_at ELSE farrier.now() END,
               failure_class = r.failure_class, failure_detail = r.failure_detail, stop_requested = r.stop_requested,
               after_undo = r.after_undo, mode_given_at = r.mode_given_at, options = r.options, memo = r.memo, skipped = r.skipped
          FROM jsonb_populate_recordset(NULL::farrier.node_decommissions, changes -> 'decommissions') r
         WHERE w.id = r.id;
    END IF;
END $$;
