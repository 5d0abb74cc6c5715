-- A name of a kind is 40 bytes at most, so this is never cut short.
CREATE OR REPLACE FUNCTION farrier.name_index(of_kind text) RETURNS text
    LANGUAGE sql IMMUTABLE
    RETURN of_kind || '_live_name';
