-- Returns the version of the tables. Every role of farrier may call it, so that a server without the right to read the records of
-- the schema can tell whether it fits.
CREATE OR REPLACE FUNCTION farrier.schema_version() RETURNS integer
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp
    RETURN (SELECT max(s.version) FROM farrier.schema_steps s);
