-- Whether these are GUIDs of InfiniBand ports, 64 at most, in the spelling that is stored.
CREATE OR REPLACE FUNCTION farrier.are_guids(given text[]) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    RETURN cardinality(given) <= 64 AND (SELECT coalesce(bool_and(g IS NOT NULL AND g ~ '^[0-9a-f]{16}$'), true) FROM unnest(given) g);
