CREATE OR REPLACE TRIGGER guard_first_values AFTER INSERT ON farrier.maas_regions
    FOR EACH ROW EXECUTE FUNCTION farrier.guard_first_values('maas_region', 'state');
