-- Lets a role call a function that no file in rights names, such as a function of a kind, and records the right in
-- table callable, so that grant_rights grants it again. May be repeated. A role that does not exist yet gets the right
-- from the first migration after it is created.
CREATE OR REPLACE FUNCTION farrier.let_call(role_name text, function text) RETURNS void
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
BEGIN
    INSERT INTO callable VALUES (role_name, function::regprocedure::text) ON CONFLICT DO NOTHING;
    IF to_regrole(role_name) IS NOT NULL THEN
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', function::regprocedure, role_name);
    END IF;
END $$;
