-- Refuses a change of a region's state that the model has no edge for (FR409). AFTER UPDATE trigger on maas_regions.
CREATE OR REPLACE FUNCTION farrier.guard_region() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM farrier.edges e WHERE e.kind = 'maas_region' AND e.layer = 'state'
                                                 AND e.from_value = OLD.state AND e.to_value = NEW.state) THEN
        RAISE EXCEPTION 'region %: the model has no edge % -> %', NEW.site, OLD.state, NEW.state USING ERRCODE = 'FR409';
    END IF;
    RETURN NULL;
END $$;
