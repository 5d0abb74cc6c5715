-- Returns whether a node of this status may have no live workflow.
CREATE OR REPLACE FUNCTION farrier.may_have_no_workflow(status text) RETURNS boolean
    LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (SELECT FROM farrier.workflow_mapping m WHERE (m.kind, m.workflow_status, m.node_status) = ('none', 'none', status));
END $$;
