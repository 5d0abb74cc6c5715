-- The clocks of nodes that do not run now, by the conditions in clock_stops: the clock of a state of the node, of its
-- management or of its live workflow. A fact is read only if a condition needs it. Query it for one node, as (SELECT
-- true ... LIMIT 1) IS NULL: a plan for EXISTS may hash the facts of all nodes.
CREATE OR REPLACE VIEW farrier.still_clocks AS
SELECT n.id AS node_id, s.kind, s.state
  FROM farrier.nodes n CROSS JOIN farrier.clock_stops s
 WHERE s.value = CASE s.fact
           WHEN 'management' THEN n.management
           WHEN 'manage_asked' THEN (coalesce(n.bmc ->> 'pending_at', n.bmc ->> 'asked_at') IS NOT NULL)::text
           WHEN 'onboarding' THEN (SELECT o.status FROM farrier.node_onboardings o WHERE o.node_id = n.id ORDER BY o.id DESC LIMIT 1)
           WHEN 'has_mode' THEN coalesce((
                SELECT o.mode IS NOT NULL FROM farrier.node_onboardings o
                 WHERE n.live_workflow_kind = 'onboarding' AND o.id = n.live_workflow_id), true)::text
       END;
