-- Separate from claim_identity, because the condition of a trigger for INSERT cannot refer to OLD.
CREATE OR REPLACE TRIGGER claim_identity_insert AFTER INSERT ON farrier.nodes
    FOR EACH ROW WHEN (NEW.bmc ?| '{serial,uuid,macs}') EXECUTE FUNCTION farrier.claim_identity();
