-- Grants the rights that depend on the installed kinds: those on their tables (grant_kind_rights), and those on functions that
-- let_call recorded. Called by every migration and every installation of a kind. May be repeated.
CREATE OR REPLACE FUNCTION farrier.grant_rights() RETURNS void
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
DECLARE
    one record;
BEGIN
    PERFORM grant_kind_rights(k.relation) FROM kinds k JOIN pg_class c ON c.oid = k.relation WHERE k.from_template;
    -- Skips functions that were dropped with the schema of their kind.
    FOR one IN SELECT c.* FROM callable c WHERE to_regrole(c.role_name) IS NOT NULL AND to_regprocedure(c.function) IS NOT NULL LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', one.function::regprocedure, one.role_name);
    END LOOP;
END $$;
