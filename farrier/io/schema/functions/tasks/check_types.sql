-- Refuses a list of task types that is null or too long (FR400). A type that the model does not have is accepted: no task has it.
CREATE OR REPLACE FUNCTION farrier.check_types(types text[]) RETURNS void LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF types IS NULL OR cardinality(types) > 64 OR EXISTS (SELECT FROM unnest(types) t WHERE char_length(t) > 64) THEN
        RAISE EXCEPTION 'expected at most 64 task types of at most 64 characters each'
            USING ERRCODE = 'FR400', HINT = $hint$Name the types, such as '{node.drain,node.uninstall}'.$hint$;
    END IF;
END $$;
