CREATE OR REPLACE TRIGGER set_ended_at BEFORE INSERT OR UPDATE OF status, ended_at ON farrier.node_decommissions
    FOR EACH ROW EXECUTE FUNCTION farrier.set_ended_at();
-- Queries count on it, also where a restore or a hand writes past the guards.
ALTER TABLE farrier.node_decommissions ENABLE ALWAYS TRIGGER set_ended_at;
