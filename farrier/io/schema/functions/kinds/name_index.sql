-- Returns the name of the unique index on the names of a kind's resources. A kind has 40 bytes at most, so it is never truncated.
CREATE OR REPLACE FUNCTION farrier.name_index(of_kind text) RETURNS text
    LANGUAGE sql IMMUTABLE
    RETURN of_kind || '_live_name';
