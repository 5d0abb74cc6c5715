-- Refuses a new workflow whose status is no initial state of its layer (FR409). BEFORE INSERT trigger on both tables of workflows; the
-- argument is the layer.
CREATE OR REPLACE FUNCTION farrier.begin_workflow() RETURNS trigger
    LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM farrier.kind_states s
                    WHERE s.kind = 'node' AND s.layer = TG_ARGV[0] AND s.state = NEW.status AND s.initial) THEN
        RAISE EXCEPTION 'a new % cannot have the status %', TG_ARGV[0], NEW.status USING ERRCODE = 'FR409',
            HINT = 'Run farrier db migrate if the database has no states yet.';
    END IF;
    RETURN NEW;
END $$;
