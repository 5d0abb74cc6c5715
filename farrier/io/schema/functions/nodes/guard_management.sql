-- Refuses a change of a node's management that the model has no edge for (FR409). AFTER UPDATE trigger on nodes.
CREATE OR REPLACE FUNCTION farrier.guard_management() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM farrier.edges e
                    WHERE e.kind = 'node' AND e.layer = 'management' AND e.from_value = OLD.management AND e.to_value = NEW.management) THEN
        PERFORM farrier.refuse_edge('management', NEW.id, OLD.management, NEW.management);
    END IF;
    RETURN NULL;
END $$;
