-- Checks the pair of a workflow and its node; see check_pair. Deferred trigger on both tables of workflows; the argument is the
-- kind. Runs as the owner; see check_node_pair.
CREATE OR REPLACE FUNCTION farrier.check_workflow_pair() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    IF TG_OP = 'DELETE' THEN
        PERFORM farrier.check_pair(OLD.node_id, NULL, NULL);
    ELSIF NEW.ended_at IS NOT NULL THEN
        PERFORM farrier.check_pair(NEW.node_id, TG_ARGV[0], NEW.status);
    ELSE
        PERFORM farrier.check_pair(NEW.node_id, NULL, NULL);
    END IF;
    RETURN NULL;
END $$;
