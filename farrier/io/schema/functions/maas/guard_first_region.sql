-- Refuses a region that begins in a state other than the model's first (FR409). AFTER INSERT trigger on maas_regions.
CREATE OR REPLACE FUNCTION farrier.guard_first_region() RETURNS trigger LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM initial_values v WHERE v.kind = 'maas_region' AND v.layer = 'state' AND v.value = NEW.state) THEN
        RAISE EXCEPTION 'a region does not begin as %', NEW.state USING ERRCODE = 'FR409';
    END IF;
    RETURN NULL;
END $$;
