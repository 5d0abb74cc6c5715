-- Refuses an update that changes a layer of a node without an edge (FR409). A node whose status needs a workflow although the node
-- names none is checked at COMMIT: an update without a change makes check_pair fire for it. enable_nestloop is off so that a plan made
-- for a statement with one row also joins many rows. AFTER UPDATE trigger on nodes, for each statement.
CREATE OR REPLACE FUNCTION farrier.guard_nodes() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp SET enable_nestloop = off AS $$
DECLARE
    one record;
BEGIN
    FOR one IN
        SELECT n.id, n.name, o.status AS from_status, n.status, o.management AS from_management, n.management
          FROM became n LEFT JOIN was o ON o.id = n.id
         WHERE o.status IS DISTINCT FROM n.status
               AND (NOT EXISTS (SELECT FROM edges e WHERE (e.kind, e.layer, e.from_value, e.to_value) = ('node', 'status', o.status, n.status))
                    OR n.live_workflow_kind IS NULL
                       AND NOT EXISTS (SELECT FROM workflow_mapping m WHERE (m.kind, m.workflow_status, m.node_status) = ('none', 'none', n.status)))
            OR o.management IS DISTINCT FROM n.management
               AND NOT EXISTS (SELECT FROM edges e WHERE (e.kind, e.layer, e.from_value, e.to_value) = ('node', 'management', o.management, n.management))
         ORDER BY n.id
    LOOP
        IF one.from_status IS DISTINCT FROM one.status THEN
            PERFORM check_edge('node', 'status', one.name, one.from_status, one.status);
        END IF;
        IF one.from_management IS DISTINCT FROM one.management THEN
            PERFORM check_edge('node', 'management', one.name, one.from_management, one.management);
        END IF;
        UPDATE nodes n SET version = n.version WHERE n.id = one.id;
    END LOOP;
    RETURN NULL;
END $$;
