CREATE OR REPLACE TRIGGER set_ended_at BEFORE INSERT OR UPDATE OF status, ended_at ON farrier.node_decommissions
    FOR EACH ROW EXECUTE FUNCTION farrier.set_ended_at();
-- Fires also in sessions that load data without guards (session_replication_role): queries rely on ended_at.
ALTER TABLE farrier.node_decommissions ENABLE ALWAYS TRIGGER set_ended_at;
