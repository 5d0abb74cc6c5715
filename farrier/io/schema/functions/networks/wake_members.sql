-- Enqueues the nodes in onboarding when the membership of one of their ports changes. AFTER UPDATE trigger on ib_members.
CREATE OR REPLACE FUNCTION farrier.wake_members() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    INSERT INTO wakes (kind, resource)
    SELECT DISTINCT 'node', n.id FROM was JOIN became USING (partition, guid) JOIN nodes n ON n.id = became.node
     WHERE (was.state, was.reason) IS DISTINCT FROM (became.state, became.reason) AND became.state IN ('applied', 'refused')
       AND n.live_workflow_kind = 'onboarding';
    RETURN NULL;
END $$;
