-- Checks the pair of a node and its live workflow; see check_pair. Deferred trigger on nodes. Of a node that named no workflow and
-- names none, only the status can be wrong: a workflow that is live has a check of its own. Runs as the owner, because before
-- PostgreSQL 18 a deferred trigger runs as the role that commits, which may have no right to read the tables.
CREATE OR REPLACE FUNCTION farrier.check_node_pair() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND OLD.live_workflow_kind IS NULL AND NEW.live_workflow_kind IS NULL
       AND EXISTS (SELECT FROM workflow_mapping m WHERE m.kind = 'none' AND m.workflow_status = 'none' AND m.node_status = NEW.status) THEN
        RETURN NULL;
    END IF;
    PERFORM check_pair(NEW.id, NULL, NULL);
    RETURN NULL;
END $$;
