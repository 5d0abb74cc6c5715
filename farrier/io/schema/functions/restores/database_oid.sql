-- Returns the OID of this database. It is IMMUTABLE for the reason given at system_identifier.
CREATE OR REPLACE FUNCTION farrier.database_oid() RETURNS oid
    LANGUAGE sql IMMUTABLE
    RETURN (SELECT d.oid FROM pg_database d WHERE d.datname = current_database());
