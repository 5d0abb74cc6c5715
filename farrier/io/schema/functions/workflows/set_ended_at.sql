-- Keeps ended_at, which marks an ended workflow, consistent with its status, whichever statement writes the row. A
-- status that the model lacks leaves ended_at as written. BEFORE INSERT or UPDATE trigger on both tables of workflows.
CREATE OR REPLACE FUNCTION farrier.set_ended_at() RETURNS trigger
    LANGUAGE plpgsql AS $$
BEGIN
    -- OLD is null for a row that is inserted.
    IF OLD.status = NEW.status AND OLD.ended_at IS NOT DISTINCT FROM NEW.ended_at THEN
        RETURN NEW;
    END IF;
    NEW.ended_at := CASE (SELECT s.ended FROM farrier.workflow_statuses s WHERE s.status = NEW.status)
                         WHEN true THEN coalesce(NEW.ended_at, OLD.ended_at, farrier.now())
                         WHEN false THEN NULL
                         ELSE NEW.ended_at END;
    RETURN NEW;
END $$;
