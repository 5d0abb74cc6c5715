-- Grants the roles of farrier their rights on the table of a kind: farrier_controller writes it, farrier_intents and
-- farrier_reader read it. These roles also get USAGE on the table's schema, in which PUBLIC may execute every function.
-- EXECUTE on its functions that run with the rights of the table's owner is therefore revoked from PUBLIC and granted
-- to farrier_controller; let_call grants it to further roles. Called by make_kind and grant_rights. May be repeated.
CREATE OR REPLACE FUNCTION farrier.grant_kind_rights(relation regclass) RETURNS void
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
DECLARE
    role_name text;
    place record;
    mighty record;
BEGIN
    SELECT s.nspname AS name, s.oid AS id, c.relowner AS owner INTO place
      FROM pg_class c JOIN pg_namespace s ON s.oid = c.relnamespace WHERE c.oid = relation;
    FOR role_name IN SELECT rolname FROM pg_roles WHERE rolname IN ('farrier_controller', 'farrier_intents', 'farrier_reader') LOOP
        EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', place.name, role_name);
        EXECUTE format('GRANT %s ON %s TO %I',
            CASE role_name WHEN 'farrier_controller' THEN 'SELECT, INSERT, UPDATE, DELETE' ELSE 'SELECT' END, relation, role_name);
    END LOOP;
    IF place.name IN ('farrier', 'public') THEN RETURN; END IF;
    FOR mighty IN SELECT p.oid::regprocedure AS function FROM pg_proc p
                   WHERE p.pronamespace = place.id AND p.prosecdef AND p.proowner = place.owner AND p.prokind = 'f' LOOP
        EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', mighty.function);
        IF to_regrole('farrier_controller') IS NOT NULL THEN
            EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO farrier_controller', mighty.function);
        END IF;
    END LOOP;
END $$;
