-- Refuses an intent `set` with a value that register_node would refuse (FR400). BEFORE INSERT trigger on intents, after validate,
-- which has checked the types of the parameters.
CREATE OR REPLACE FUNCTION farrier.validate_set() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    PERFORM refuse_details(NULL, NULL, coalesce(NEW.params -> 'labels', '{}'), NEW.params ->> 'site', NEW.params ->> 'model');
    PERFORM read_macs(ARRAY(SELECT jsonb_array_elements_text(NEW.params -> 'macs')));
    RETURN NEW;
END $$;
