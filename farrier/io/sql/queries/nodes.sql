-- Returns nodes as rows of the inventory, in the order of the given ids. Heartbeats come from the view, because readers have no right
-- on the table of agents.
SELECT row_to_json(x)::text
  FROM (
    SELECT n.id, n.name, details.*, n.status, n.status_entered_at,
           CASE WHEN n.status <> 'deleted' THEN n.management END AS management,
           CASE WHEN n.status <> 'deleted' THEN n.management_entered_at END AS management_entered_at,
           coalesce(n.bmc ->> 'pending_at', n.bmc ->> 'asked_at')::timestamptz AS verify_pending_at,
           coalesce(v.schedulable, false) AS schedulable,
           coalesce(v.held, false) AS held,
           v.restored_at,
           n.paused ->> 'reason' AS paused, q.cause AS quarantine_cause, q.reason AS quarantine_reason,
           (SELECT coalesce(json_agg(c ORDER BY c.since, c.source, c.id, c.target), '[]') FROM (
                SELECT c.source, c.id, c.target, c.message, c.requested, c.effect, c.released, c.since, c.seen_at,
                       c.expires_at FROM farrier.node_conditions c WHERE c.node = n.id) c) AS conditions,
           v.last_heartbeat_at, n.created_at, n.bmc ->> 'failure' AS bmc_failure,
           CASE n.management WHEN 'manageable' THEN n.sync_failure END AS power_failure,
           (SELECT row_to_json(w) FROM farrier.node_workflows w
             WHERE w.kind = n.live_workflow_kind AND w.id = n.live_workflow_id) AS workflow,
           CASE n.status WHEN 'enrolling' THEN (
                SELECT o.status FROM farrier.node_onboardings o WHERE o.node_id = n.id ORDER BY o.id DESC LIMIT 1)
           END AS last_onboarding
      FROM unnest($1::text[]::bigint[]) WITH ORDINALITY AS asked (id, place)
      JOIN farrier.nodes n ON n.id = asked.id
     CROSS JOIN LATERAL farrier.columns_of(n) details
      LEFT JOIN LATERAL (SELECT x.cause, x.reason FROM farrier.node_quarantines x WHERE x.node = n.id) q ON true
      LEFT JOIN farrier.node_inventory v ON v.id = n.id
     ORDER BY asked.place
  ) x
