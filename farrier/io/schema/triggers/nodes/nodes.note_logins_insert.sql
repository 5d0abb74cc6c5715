-- Separate from note_logins, because the condition of a trigger for INSERT cannot refer to OLD. register_node inserts
-- no tries.
CREATE OR REPLACE TRIGGER note_logins_insert AFTER INSERT ON farrier.nodes
    FOR EACH ROW WHEN (NEW.bmc ? 'tries') EXECUTE FUNCTION farrier.note_logins();
