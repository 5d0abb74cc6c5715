-- Refuses an intent `set` with a value that register_node would refuse (FR400). BEFORE INSERT trigger on intents, after validate,
-- which has checked the rules of the parameters.
CREATE OR REPLACE FUNCTION farrier.validate_set() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    PERFORM refuse_details(NEW.params - '{unset, if_version}'::text[]);
    RETURN NEW;
END $$;
