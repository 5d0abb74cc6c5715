-- Workflows that begin in this commit.
INSERT INTO farrier.node_decommissions (node_id, mode, status, stage, attempt, next_attempt_at, mode_given_at, options, skipped)
SELECT r.node_id, r.mode, r.status, r.stage, r.attempt, r.next_attempt_at, r.mode_given_at, r.options, r.skipped
  FROM jsonb_populate_recordset(NULL::farrier.node_decommissions, $1::jsonb) r
