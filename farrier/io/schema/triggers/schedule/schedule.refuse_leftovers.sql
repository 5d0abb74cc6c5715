-- Not for nodes and MAAS regions, which have no requests in resource_intents.
CREATE OR REPLACE TRIGGER refuse_leftovers AFTER DELETE ON farrier.schedule
    FOR EACH ROW WHEN (OLD.kind NOT IN ('node', 'maas_region')) EXECUTE FUNCTION farrier.refuse_leftovers();
