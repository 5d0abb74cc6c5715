-- Returns whether this database is not the one that farrier.installation describes: a restored dump, a copy, or a database after
-- pg_upgrade. A missing row counts as a restore. While this is true, no controller commits a run, and no agent or worker is served.
CREATE OR REPLACE FUNCTION farrier.is_restored() RETURNS boolean
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp
    RETURN NOT EXISTS (
        SELECT FROM farrier.installation i
         WHERE i.system_identifier = (SELECT c.system_identifier FROM pg_control_system() c)
           AND i.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
           AND i.relation = i.tableoid);
