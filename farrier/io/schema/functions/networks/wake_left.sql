-- Enqueues the nodes in onboarding with a port whose membership has ended, because the port may now join. AFTER DELETE trigger on
-- ib_members.
CREATE OR REPLACE FUNCTION farrier.wake_left() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    INSERT INTO wakes (kind, resource)
    SELECT DISTINCT 'node', n.id FROM was JOIN node_ib_ports p ON p.guids && ARRAY[was.guid] JOIN nodes n ON n.id = p.node
     WHERE n.live_workflow_kind = 'onboarding';
    RETURN NULL;
END $$;
