-- Nodes in status `enrolling` whose clock does not run: their onboarding has no mode yet, was cancelled, or waits for an
-- operator; or their BMC is not verified (management unmanaged, enroll or error).
CREATE OR REPLACE VIEW farrier.idle_enrolling AS
SELECT n.id
  FROM farrier.nodes n
  LEFT JOIN farrier.node_onboardings live ON n.live_workflow_kind = 'onboarding' AND live.id = n.live_workflow_id
  LEFT JOIN LATERAL (
       SELECT o.status FROM farrier.node_onboardings o WHERE o.node_id = n.id ORDER BY o.id DESC LIMIT 1) newest ON true
 WHERE n.status = 'enrolling'
   AND (n.management IN ('unmanaged', 'enroll', 'error') OR live.id IS NOT NULL AND live.mode IS NULL
        OR newest.status IN ('cancelled', 'failed_manual_intervention'));
