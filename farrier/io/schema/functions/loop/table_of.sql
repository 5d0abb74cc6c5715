-- Returns the table of a kind's resources, also for those that are not in kinds; see relation_of.
CREATE OR REPLACE FUNCTION farrier.table_of(of_kind text) RETURNS regclass
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    RETURN CASE of_kind WHEN 'node' THEN 'nodes'::regclass WHEN 'maas_region' THEN 'maas_regions'::regclass ELSE relation_of(of_kind) END;
END $$;
