-- Returns the identifier of the server's data directory. It is IMMUTABLE, because it never changes while a session lasts: a plan then
-- contains the value, and reads the server's control file only once.
CREATE OR REPLACE FUNCTION farrier.system_identifier() RETURNS bigint
    LANGUAGE sql IMMUTABLE
    RETURN (SELECT c.system_identifier FROM pg_control_system() c);
