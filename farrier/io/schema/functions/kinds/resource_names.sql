-- Returns the names of these resources, even if they have ended; no rows if there is no such kind or table.
CREATE OR REPLACE FUNCTION farrier.resource_names(kind text, ids bigint[]) RETURNS TABLE (id bigint, name text)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    found kinds;
BEGIN
    SELECT k.* INTO found FROM kinds k JOIN pg_class c ON c.oid = k.relation WHERE k.kind = resource_names.kind;
    IF found.kind IS NOT NULL THEN
        RETURN QUERY EXECUTE format('SELECT r.id, r.%I FROM %s r WHERE r.id = ANY ($1)', found.named, found.relation) USING ids;
    END IF;
END $$;
