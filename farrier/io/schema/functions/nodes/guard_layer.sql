-- Refuses a change of status that the model has no edge for (FR409). AFTER UPDATE trigger on nodes and both tables of workflows;
-- the argument is the layer. For each row, because a statement trigger would join old rows with new ones, which is planned for a
-- handful of rows and takes a quarter of a million comparisons for a batch.
CREATE OR REPLACE FUNCTION farrier.guard_status() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM farrier.edges e
                    WHERE e.kind = 'node' AND e.layer = TG_ARGV[0] AND e.from_value = OLD.status AND e.to_value = NEW.status) THEN
        IF TG_ARGV[0] = 'status' THEN
            PERFORM farrier.refuse_edge(TG_ARGV[0], NEW.id, OLD.status, NEW.status);
        ELSE
            PERFORM farrier.refuse_edge(TG_ARGV[0], NEW.node_id, OLD.status, NEW.status);
        END IF;
    END IF;
    RETURN NULL;
END $$;
