-- Refuses a node or workflow that begins in a value other than the model's first ones (FR409). AFTER INSERT trigger; the
-- arguments are the layers of the row.
CREATE OR REPLACE FUNCTION farrier.guard_first_values() RETURNS trigger LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
DECLARE
    of_layer text;
    begins_as text;
BEGIN
    FOREACH of_layer IN ARRAY TG_ARGV LOOP
        begins_as := to_jsonb(NEW) ->> CASE of_layer WHEN 'management' THEN 'management' ELSE 'status' END;
        IF NOT EXISTS (SELECT FROM initial_values v WHERE v.kind = 'node' AND v.layer = of_layer AND v.value = begins_as) THEN
            RAISE EXCEPTION 'layer % does not begin as %', of_layer, begins_as
                USING ERRCODE = 'FR409', HINT = 'farrier.register_node makes nodes; the handler makes workflows.';
        END IF;
    END LOOP;
    RETURN NULL;
END $$;
