-- Refuses a row that begins in a value other than the model's first ones (FR409). AFTER INSERT trigger; the arguments are the
-- kind and the layers of the row. A layer's value is in the column of its name, that of a workflow in status.
CREATE OR REPLACE FUNCTION farrier.guard_first_values() RETURNS trigger LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
DECLARE
    of_layer text;
    begins_as text;
BEGIN
    FOREACH of_layer IN ARRAY TG_ARGV[1:] LOOP
        begins_as := coalesce(to_jsonb(NEW) ->> of_layer, to_jsonb(NEW) ->> 'status');
        IF NOT EXISTS (SELECT FROM initial_values v WHERE v.kind = TG_ARGV[0] AND v.layer = of_layer AND v.value = begins_as) THEN
            RAISE EXCEPTION '%: layer % does not begin as %', replace(TG_ARGV[0], '_', ' '), of_layer, begins_as
                USING ERRCODE = 'FR409', HINT = 'farrier.initial_values lists the first values of each layer.';
        END IF;
    END LOOP;
    RETURN NULL;
END $$;
