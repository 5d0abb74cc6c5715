-- Returns the name of the unique index on the names of a kind's resources. The name of a kind has at most 40 bytes, so
-- PostgreSQL does not truncate the result.
CREATE OR REPLACE FUNCTION farrier.name_index(of_kind text) RETURNS text
    LANGUAGE sql IMMUTABLE
    RETURN of_kind || '_live_name';
