-- Enqueues the nodes in onboarding that use this segment or partition.
CREATE OR REPLACE FUNCTION farrier.wake_users(of_kind text, called text) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
    INSERT INTO wakes (kind, resource)
    SELECT 'node', n.id FROM node_uses u JOIN nodes n ON n.id = u.node
     WHERE u.kind = of_kind AND u.name = called AND n.live_workflow_kind = 'onboarding';
$$;
