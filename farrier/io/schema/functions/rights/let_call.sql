-- Lets a role call a function that is none of the above; it outlives `farrier db roles`. May be called again.
CREATE OR REPLACE FUNCTION farrier.let_call(role_name text, function text) RETURNS void
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
BEGIN
    INSERT INTO callable VALUES (role_name, function::regprocedure::text) ON CONFLICT DO NOTHING;
    IF to_regrole(role_name) IS NOT NULL THEN
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', function::regprocedure, role_name);
    END IF;
END $$;
