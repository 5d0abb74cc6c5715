-- Creates the resource that an intent requests and returns its id. The parameters are columns of the kind's table; a
-- column without a parameter gets its default. FR400 for a name or a value that a column refuses, unique_violation for
-- a name that is in use. Called by validate_resource_intent.
CREATE OR REPLACE FUNCTION farrier.create_resource(of_kind text, called text, params jsonb) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    relation regclass := relation_of(of_kind);
    columns text := (SELECT string_agg(format('%I', k), ', ' ORDER BY k) FROM jsonb_object_keys(params || '{"name": ""}') k);
    made bigint;
    violated text;
    advice text;
BEGIN
    EXECUTE format('INSERT INTO %1$s (%2$s) SELECT %2$s FROM jsonb_populate_record(NULL::%1$s, $1) RETURNING id', relation, columns)
       INTO made USING params || jsonb_build_object('name', called);
    RETURN made;
EXCEPTION
    WHEN unique_violation THEN
        GET STACKED DIAGNOSTICS violated = CONSTRAINT_NAME;
        IF violated <> name_index(of_kind) THEN RAISE; END IF;
        RAISE EXCEPTION '% % already exists', replace(of_kind, '_', ' '), quote_literal(called)
            USING ERRCODE = 'unique_violation', CONSTRAINT = violated,
                  HINT = 'The name is free again once the resource has ended. Calls of farrier.resource_intent() with an idempotency key can be repeated.';
    WHEN check_violation THEN
        GET STACKED DIAGNOSTICS violated = CONSTRAINT_NAME;
        IF violated NOT IN ('resources_name_check') THEN RAISE; END IF;
        RAISE EXCEPTION 'name % is not valid; expected 1 to 253 letters, digits, dots, dashes and underscores, not only digits', quote_literal(called)
            USING ERRCODE = 'FR400';
    WHEN data_exception THEN  -- a value that the column cannot hold
        GET STACKED DIAGNOSTICS advice = PG_EXCEPTION_HINT;
        RAISE EXCEPTION 'create: %', SQLERRM USING ERRCODE = 'FR400', HINT = advice;
END $$;
