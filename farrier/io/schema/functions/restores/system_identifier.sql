-- Returns the identifier of the server's data directory. It is IMMUTABLE, although it differs between servers, because it never changes
-- while a session lasts: the planner replaces the call by the value, so the control file is read once for each plan. Not for an index, a
-- constraint or a generated column.
CREATE OR REPLACE FUNCTION farrier.system_identifier() RETURNS bigint
    LANGUAGE sql IMMUTABLE
    RETURN (SELECT c.system_identifier FROM pg_control_system() c);
