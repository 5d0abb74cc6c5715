-- Refuses a commit in which a node and its workflows are inconsistent (FR409). The live workflow is the one that the node names, and
-- its status matches the node's (workflow_mapping). A node without a live workflow has a status that needs none. In a
-- commit that ends a workflow, the last status of the workflow (ended_kind and ended_status, null in any other commit)
-- matches the status of the node. Called by deferred triggers, when all rows of the commit are written.
CREATE OR REPLACE FUNCTION farrier.check_pair(node_id bigint, ended_kind text, ended_status text) RETURNS void
    LANGUAGE plpgsql AS $$
DECLARE
    pair record;
BEGIN
    SELECT n.id, n.status, n.live_workflow_kind, n.live_workflow_id, live.* INTO pair
      FROM farrier.nodes n, LATERAL (
           SELECT count(*) AS how_many, min(w.kind) AS kind, min(w.id) AS workflow_id, min(w.status) AS workflow_status
             FROM farrier.node_workflows w WHERE w.node_id = n.id AND w.ended_at IS NULL) live
     WHERE n.id = check_pair.node_id;
    IF pair.how_many > 1 THEN
        RAISE EXCEPTION 'node % has both a live onboarding and a live decommission', pair.id USING ERRCODE = 'FR409';
    END IF;
    IF (pair.live_workflow_kind, pair.live_workflow_id) IS DISTINCT FROM (pair.kind, pair.workflow_id) THEN
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
