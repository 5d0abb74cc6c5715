-- Refuses a commit in which a node and its workflows are inconsistent (FR409). The live workflow is the one that the node names, and
-- its status matches the node's (workflow_mapping). A node without a live workflow has a status that needs none. In a
-- commit that ends a workflow, the last status of the workflow (ended_kind and ended_status, null in any other commit)
-- matches the status of the node. Called by deferred triggers, when all rows of the commit are written.
CREATE OR REPLACE FUNCTION farrier.check_pair(node_id bigint, ended_kind text, ended_status text) RETURNS void
    LANGUAGE plpgsql AS $$
DECLARE
    pair record;
BEGIN
    SELECT n.id, n.status, n.live_workflow_kind, n.live_workflow_id, o.id IS NOT NULL AND d.id IS NOT NULL AS has_two,
           CASE WHEN o.id IS NOT NULL THEN 'onboarding' WHEN d.id IS NOT NULL THEN 'decommission' END AS kind,
           coalesce(o.id, d.id) AS workflow_id, coalesce(o.status, d.status) AS workflow_status INTO pair
      FROM farrier.nodes n
      LEFT JOIN farrier.node_onboardings o ON o.node_id = n.id AND o.ended_at IS NULL
      LEFT JOIN farrier.node_decommissions d ON d.node_id = n.id AND d.ended_at IS NULL
     WHERE n.id = check_pair.node_id;
    IF pair.has_two THEN
        RAISE EXCEPTION 'node % has both a live onboarding and a live decommission', pair.id USING ERRCODE = 'FR409';
    END IF;
    IF pair.live_workflow_kind IS DISTINCT FROM pair.kind OR pair.live_workflow_id IS DISTINCT FROM pair.workflow_id THEN
        RAISE EXCEPTION 'node % refers to % % as its live workflow, but % % is live', pair.id,
            coalesce(pair.live_workflow_kind, 'none'), pair.live_workflow_id, coalesce(pair.kind, 'none'), pair.workflow_id
            USING ERRCODE = 'FR409';
    END IF;
    IF NOT EXISTS (
        SELECT FROM farrier.workflow_mapping m
         WHERE m.kind = coalesce(pair.kind, 'none') AND m.workflow_status = coalesce(pair.workflow_status, 'none')
           AND m.node_status = pair.status) THEN
        RAISE EXCEPTION 'node % is %, which contradicts %', pair.id, pair.status,
            CASE WHEN pair.kind IS NULL THEN 'no live workflow' ELSE format('its %s that is %s', pair.kind, pair.workflow_status) END
            USING ERRCODE = 'FR409';
    END IF;
    IF ended_kind IS NOT NULL AND NOT EXISTS (
        SELECT FROM farrier.workflow_mapping m WHERE m.kind = ended_kind AND m.workflow_status = ended_status AND m.node_status = pair.status) THEN
        RAISE EXCEPTION 'node % is %, which contradicts its % that ended as %', pair.id, pair.status, ended_kind, ended_status
            USING ERRCODE = 'FR409';
    END IF;
END $$;
