-- Returns a sentence about the first fault in the parameters of an action; null if there is none. `spec` is
-- actions.params or kind_actions.params: `fields` has a rule for each parameter, `any_of` lists the parameters of which
-- at least one is required, and `needs` maps a boolean parameter to the parameter that it requires when it is true.
-- `words` is the format of the sentence, with places for the name of the parameter and for its fault.
CREATE OR REPLACE FUNCTION farrier.params_fault(spec jsonb, params jsonb, words text DEFAULT 'parameter %s %s') RETURNS text
    LANGUAGE plpgsql IMMUTABLE SET search_path = farrier, pg_temp AS $$
DECLARE
    field text;
    other text;
    fault text;
BEGIN
    IF jsonb_typeof(params) <> 'object' THEN RETURN 'params must be a JSON object'; END IF;
    FOR field IN SELECT jsonb_object_keys(params) LOOP
        fault := param_fault(spec -> 'fields' -> field, params -> field);
        IF fault IS NOT NULL THEN
            RETURN format(words || '; expected: %s', field, fault,
                coalesce((SELECT string_agg(k, ', ') FROM jsonb_object_keys(spec -> 'fields') k), 'none'));
        END IF;
    END LOOP;
    FOR field IN SELECT k FROM jsonb_object_keys(spec -> 'fields') k
                  WHERE (spec #> ARRAY['fields', k, 'required']) = 'true'::jsonb AND NOT params ? k LOOP
        RETURN format(words, field, 'is missing');
    END LOOP;
    IF jsonb_array_length(spec -> 'any_of') > 0
       AND NOT params ?| ARRAY(SELECT jsonb_array_elements_text(spec -> 'any_of')) THEN
        RETURN format('needs at least one of: %s', (SELECT string_agg(e, ', ') FROM jsonb_array_elements_text(spec -> 'any_of') e));
    END IF;
    IF spec -> 'needs' <> '{}' THEN
        FOR field, other IN SELECT key, value FROM jsonb_each_text(spec -> 'needs') LOOP
            IF params -> field = 'true'::jsonb AND NOT params ? other THEN
                RETURN format('%s: true requires %s', field, other);
            END IF;
        END LOOP;
    END IF;
    RETURN NULL;
END $$;
