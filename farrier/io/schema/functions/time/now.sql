-- Returns the time of the database. SQL reads the time only here: a test database replaces this function to move its
-- clock.
CREATE OR REPLACE FUNCTION farrier.now() RETURNS timestamptz
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN statement_timestamp();
