-- Returns the live workflows of these nodes, each with what the snapshot of its node has only because of it. Some statuses require a live
-- decommission. For a node in such a status, the decommission is looked up, because after a restore from a backup or an edit by hand
-- the node may name no decommission or an ended decommission. Called by the load of nodes.
CREATE OR REPLACE FUNCTION farrier.load_workflows(ids bigint[])
    RETURNS TABLE (node bigint, id bigint, region json, outages json, labels jsonb, networks jsonb, ib_guids json, candidate_of text,
                   secrets_left jsonb, expected jsonb, workflow json, tasks json)
    LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    IF ids = '{}' THEN RETURN; END IF;
    RETURN QUERY SELECT
           n.id, live.id,
           (SELECT row_to_json(r) FROM (
                SELECT r.failure, r.username, r.last_error FROM farrier.maas_regions r WHERE r.name = n.site AND r.ended_at IS NULL) r),
           CASE WHEN n.site IS NULL THEN '[]' ELSE farrier.region_outages(n.site) END,
           CASE WHEN live.kind = 'onboarding' THEN n.labels END,
           CASE WHEN live.kind = 'onboarding' AND EXISTS (SELECT FROM farrier.node_uses u WHERE u.node = n.id)
             THEN farrier.networks_of(n.id, n.name) END,
           CASE WHEN live.kind = 'onboarding' THEN (
             SELECT to_json(p.guids) FROM farrier.node_ib_ports p WHERE p.node = n.id) END,
           CASE WHEN live.kind = 'onboarding' AND n.maas_id IS NULL THEN (
             SELECT other.name FROM farrier.node_onboardings o JOIN farrier.nodes other ON other.maas_id = o.memo ->> 'candidate'
              WHERE o.id = live.id AND other.site IS NOT DISTINCT FROM n.site AND other.id <> n.id AND other.status <> 'deleted') END,
           CASE WHEN live.kind = 'decommission' THEN farrier.secrets_left(n.id, live.id) END,
           CASE WHEN live.kind = 'decommission' THEN farrier.expected_devices(n.id, n.maas_id) END,
           CASE live.kind
             WHEN 'onboarding' THEN (SELECT row_to_json(w) FROM (
                SELECT 'onboarding' AS kind, o.* FROM farrier.node_onboardings o WHERE o.id = live.id) w)
             WHEN 'decommission' THEN (SELECT row_to_json(w) FROM (
                SELECT 'decommission' AS kind, d.* FROM farrier.node_decommissions d WHERE d.id = live.id) w)
           END,
           CASE WHEN live.kind = 'decommission' THEN (SELECT json_agg(t) FROM (
                SELECT DISTINCT ON (t.type) t.id, t.type, t.status, t.attempt, t.failures, t.lease_until, t.created_at, t.result, t.evidence, t.claimed_by
                  FROM farrier.node_tasks t WHERE t.workflow_id = live.id
                 ORDER BY t.type, t.id DESC) t) END
      FROM farrier.nodes n
     CROSS JOIN LATERAL (
           SELECT n.status = ANY (ARRAY(
                  SELECT m.node_status FROM farrier.workflow_mapping m WHERE (m.kind, m.workflow_status) = ('none', 'none'))) AS may_have_none
           OFFSET 0) w
     CROSS JOIN LATERAL (
           SELECT CASE WHEN w.may_have_none THEN n.live_workflow_id
                       ELSE (SELECT d.id FROM farrier.node_decommissions d WHERE d.node_id = n.id AND d.ended_at IS NULL) END AS id
           OFFSET 0) l
     CROSS JOIN LATERAL (
           SELECT l.id, CASE WHEN w.may_have_none THEN n.live_workflow_kind WHEN l.id IS NOT NULL THEN 'decommission' END AS kind) live
     WHERE n.id = ANY (ids) AND live.id IS NOT NULL;
END $$;
