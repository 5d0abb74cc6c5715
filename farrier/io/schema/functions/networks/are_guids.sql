-- Returns whether these are at most 64 GUIDs of InfiniBand ports in the stored form; a CHECK of node_ib_ports.
CREATE OR REPLACE FUNCTION farrier.are_guids(given text[]) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    RETURN cardinality(given) <= 64 AND (SELECT coalesce(bool_and(g IS NOT NULL AND g ~ '^[0-9a-f]{16}$'), true) FROM unnest(given) g);
