-- Returns what is wrong with one parameter, as the end of a sentence, or null. `rule` is an element of `fields` in
-- actions.params or kind_actions.params. Its keys are `type` and, depending on the type, `min`, `max`, `enum`,
-- `pattern`, `items` and `schema`. The optional key `fault` has the text for a value that does not match the pattern;
-- {value} in the text stands for the value.
CREATE OR REPLACE FUNCTION farrier.param_fault(rule jsonb, value jsonb) RETURNS text
    LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    given text := value #>> '{}';
    shown text := left(value::text, 80);
BEGIN
    IF rule IS NULL THEN RETURN 'is unknown'; END IF;
    IF rule ->> 'type' = 'boolean' THEN
        RETURN CASE WHEN jsonb_typeof(value) <> 'boolean' THEN 'must be true or false, got ' || shown END;
    END IF;
    IF rule ->> 'type' = 'object' THEN
        IF jsonb_typeof(value) <> 'object' THEN RETURN 'must be a JSON object, got ' || shown; END IF;
        RETURN (SELECT format('has the value %s for %L, which %s', left(e.value::text, 80), e.key, farrier.param_fault(rule -> 'items', e.value))
                  FROM jsonb_each(value) e
                 WHERE rule ? 'items' AND farrier.param_fault(rule -> 'items', e.value) IS NOT NULL ORDER BY e.key LIMIT 1);
    END IF;
    IF rule ->> 'type' = 'struct' THEN
        RETURN CASE WHEN jsonb_typeof(value) <> 'object' THEN 'must be a JSON object, got ' || shown
                    ELSE farrier.params_fault(rule -> 'schema', value, 'has a field %s that %s') END;
    END IF;
    IF rule ->> 'type' = 'number' THEN
        IF jsonb_typeof(value) <> 'number' THEN RETURN 'must be a number, got ' || shown; END IF;
        RETURN CASE WHEN given::numeric < (rule ->> 'min')::numeric THEN format('must be %s or more, got %s', rule ->> 'min', shown) END;
    END IF;
    IF rule ->> 'type' = 'integer' THEN
        IF jsonb_typeof(value) <> 'number' OR given !~ '^-?[0-9]+$' THEN RETURN 'must be a whole number, got ' || shown; END IF;
        -- The default bounds are those of bigint.
        IF given::numeric < coalesce((rule ->> 'min')::numeric, -9223372036854775808) THEN
            RETURN format('must be %s or more, got %s', coalesce(rule ->> 'min', '-9223372036854775808'), given);
        END IF;
        IF given::numeric > coalesce((rule ->> 'max')::numeric, 9223372036854775807) THEN
            RETURN format('must be %s or less, got %s', coalesce(rule ->> 'max', '9223372036854775807'), given);
        END IF;
        RETURN NULL;
    END IF;
    IF rule ->> 'type' = 'array' THEN
        IF jsonb_typeof(value) <> 'array' THEN RETURN 'must be an array, got ' || shown; END IF;
        IF jsonb_array_length(value) > (rule ->> 'max')::integer THEN
            RETURN format('has more than %s elements', rule ->> 'max');
        END IF;
        RETURN (SELECT format('has an element that %s', farrier.param_fault(rule -> 'items', e))
                  FROM jsonb_array_elements(value) e WHERE farrier.param_fault(rule -> 'items', e) IS NOT NULL LIMIT 1);
    END IF;
    IF jsonb_typeof(value) <> 'string' THEN RETURN 'must be a string'; END IF;
    IF rule ? 'enum' AND NOT (rule -> 'enum') ? given THEN
        RETURN format('must be one of %s, got %s', (SELECT string_agg(e, ', ') FROM jsonb_array_elements_text(rule -> 'enum') e), shown);
    END IF;
    IF char_length(given) > (rule ->> 'max')::integer THEN
        RETURN format('is longer than %s characters', rule ->> 'max');
    END IF;
    IF rule ? 'pattern' AND given !~ (rule ->> 'pattern') THEN
        RETURN CASE WHEN rule ? 'fault' THEN replace(rule ->> 'fault', '{value}', quote_literal(left(given, 80)))
                    WHEN rule ->> 'pattern' IN (E'\\S', E'\\A\\S+\\Z') THEN 'is blank or has blanks in it'
                    WHEN rule ->> 'pattern' = '.' THEN 'is empty'
                    ELSE format('does not match %s, got %s', rule ->> 'pattern', shown) END;
    END IF;
    RETURN NULL;
END $$;
