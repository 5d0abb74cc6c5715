-- Rights, besides those that were: of the kinds' tables, and of functions that later migrations or kinds of others let a
-- role call.
CREATE TABLE farrier.callable (
    role_name text NOT NULL,
    function  text NOT NULL,   -- with its arguments: 'farrier.take_address(text,bigint)'
    PRIMARY KEY (role_name, function)
);
ALTER FUNCTION farrier.grant_rights() RENAME TO grant_basic_rights;
CREATE FUNCTION farrier.grant_rights() RETURNS void LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
DECLARE
    one record;
BEGIN
    PERFORM grant_basic_rights();
    PERFORM grant_kind_rights(k.relation) FROM kinds k JOIN pg_class c ON c.oid = k.relation;
    IF to_regrole('farrier_controller') IS NOT NULL THEN
        REVOKE INSERT, UPDATE, DELETE ON kinds, kind_states, kind_actions, callable, history_retention FROM farrier_controller;
        REVOKE EXECUTE ON FUNCTION grant_rights(), grant_basic_rights(), grant_kind_rights(regclass), make_kind(text, regclass),
            forget_kind(text), let_call(text, text) FROM farrier_controller;
        IF to_regclass('farrier.node_identities') IS NOT NULL THEN
            REVOKE INSERT, UPDATE, DELETE ON node_identities FROM farrier_controller;
        END IF;
    END IF;
    IF to_regrole('farrier_intents') IS NOT NULL THEN
        GRANT INSERT (kind, resource, action, params, idempotency_key, requested_by) ON resource_intents TO farrier_intents;
        GRANT SELECT ON resource_intents, kinds, kind_states, kind_actions TO farrier_intents;
        GRANT EXECUTE ON FUNCTION resource_intent(text, text, text, jsonb, text, text), list_resources(text, boolean) TO farrier_intents;
    END IF;
    IF to_regrole('farrier_reader') IS NOT NULL THEN
        GRANT SELECT ON resource_intents, kinds, kind_states, kind_actions, number_pools, pool_numbers TO farrier_reader;
        GRANT EXECUTE ON FUNCTION list_resources(text, boolean) TO farrier_reader;
    END IF;
    -- One that was dropped, with the schema of its kind, is passed over.
    FOR one IN SELECT c.* FROM callable c WHERE to_regrole(c.role_name) IS NOT NULL AND to_regprocedure(c.function) IS NOT NULL LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', one.function::regprocedure, one.role_name);
    END LOOP;
END $$;

-- Lets a role call a function that is none of the above; it outlives `farrier db roles`. May be called again.
CREATE FUNCTION farrier.let_call(role_name text, function text) RETURNS void
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
BEGIN
    INSERT INTO callable VALUES (role_name, function::regprocedure::text) ON CONFLICT DO NOTHING;
    IF to_regrole(role_name) IS NOT NULL THEN
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', function::regprocedure, role_name);
    END IF;
END $$;

SELECT farrier.grant_rights();
