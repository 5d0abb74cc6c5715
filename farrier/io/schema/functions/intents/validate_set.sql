-- The same refusals as `register_node`, when the intent is inserted.
CREATE OR REPLACE FUNCTION farrier.validate_set() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    PERFORM refuse_details(NULL, NULL, coalesce(NEW.params -> 'labels', '{}'), NEW.params ->> 'site', NEW.params ->> 'model');
    PERFORM read_macs(ARRAY(SELECT jsonb_array_elements_text(NEW.params -> 'macs')));
    RETURN NEW;
END $$;
