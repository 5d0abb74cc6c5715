-- Returns the time of the database. The only place where SQL reads the time: a test database replaces this function to move its
-- clock.
CREATE OR REPLACE FUNCTION farrier.now() RETURNS timestamptz
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN statement_timestamp();
