-- Returns the name of a resource, also of one that has ended; null if there is no such kind, table or resource.
CREATE OR REPLACE FUNCTION farrier.resource_name(kind text, id bigint) RETURNS text
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    found_relation regclass;
    found_name text;
BEGIN
    SELECT k.relation INTO found_relation FROM kinds k JOIN pg_class c ON c.oid = k.relation WHERE k.kind = resource_name.kind AND k.from_template;
    IF found_relation IS NOT NULL THEN
        EXECUTE format('SELECT r.name FROM %s r WHERE r.id = $1', found_relation) INTO found_name USING id;
    END IF;
    RETURN found_name;
END $$;
