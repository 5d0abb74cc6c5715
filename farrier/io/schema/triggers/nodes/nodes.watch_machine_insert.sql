-- Separate from watch_machine, because the condition of a trigger for INSERT cannot refer to OLD.
CREATE OR REPLACE TRIGGER watch_machine_insert AFTER INSERT ON farrier.nodes
    FOR EACH ROW WHEN (NEW.maas_id IS NOT NULL) EXECUTE FUNCTION farrier.watch_machine();
