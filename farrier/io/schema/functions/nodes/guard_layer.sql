-- Checks a change of a layer of a node; see check_edge. AFTER UPDATE trigger on nodes and both tables of workflows; the argument is
-- the layer. For each row, because a statement trigger would join old rows with new ones, which is planned for a handful of rows and
-- takes a quarter of a million comparisons for a batch.
CREATE OR REPLACE FUNCTION farrier.guard_layer() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    CASE TG_ARGV[0]
        WHEN 'management' THEN PERFORM farrier.check_edge('node', 'management', NEW.name, OLD.management, NEW.management);
        WHEN 'status' THEN PERFORM farrier.check_edge('node', 'status', NEW.name, OLD.status, NEW.status);
        ELSE PERFORM farrier.check_edge('node', TG_ARGV[0], NEW.node_id::text, OLD.status, NEW.status);
    END CASE;
    RETURN NULL;
END $$;
