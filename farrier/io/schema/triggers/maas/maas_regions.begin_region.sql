CREATE OR REPLACE TRIGGER begin_region AFTER INSERT ON farrier.maas_regions
    FOR EACH ROW EXECUTE FUNCTION farrier.begin_region();
