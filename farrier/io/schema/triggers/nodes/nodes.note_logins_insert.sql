CREATE OR REPLACE TRIGGER note_logins_insert AFTER INSERT ON farrier.nodes
    FOR EACH ROW WHEN (NEW.bmc ? 'tries') EXECUTE FUNCTION farrier.note_logins();
