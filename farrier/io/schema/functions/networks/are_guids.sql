-- Returns whether `given` has at most 64 GUIDs of InfiniBand ports, all in the stored form. Used by a CHECK of
-- node_ib_ports.
CREATE OR REPLACE FUNCTION farrier.are_guids(given text[]) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    RETURN cardinality(given) <= 64 AND (SELECT coalesce(bool_and(g IS NOT NULL AND g ~ '^[0-9a-f]{16}$'), true) FROM unnest(given) g);
