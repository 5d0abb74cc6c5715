-- Returns whether this database is not the one that farrier.installation describes: a restored dump, a copy, or a database after
-- pg_upgrade. A missing row counts as a restore. While this is true, no controller commits a run, and no agent or worker is served.
-- Every commit calls it, so its language is PL/pgSQL: before version 18, PostgreSQL plans a function in language SQL again in each
-- statement that calls it, unless it can inline the function.
CREATE OR REPLACE FUNCTION farrier.is_restored() RETURNS boolean
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    RETURN NOT EXISTS (
        SELECT FROM installation i
         WHERE (i.system_identifier, i.database) = (system_identifier(), database_oid()) AND i.relation = i.tableoid);
END $$;
