-- The only place where SQL reads the time. A test database replaces this one function to move its clock.
CREATE OR REPLACE FUNCTION farrier.now() RETURNS timestamptz
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN statement_timestamp();
