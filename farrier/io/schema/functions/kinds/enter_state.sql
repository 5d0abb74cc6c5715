-- Refuses a change of a layer for which the kind has no edge (FR409), and sets the time of any other change. Ends a
-- resource that enters a terminal state: sets ended_at and releases its numbers. BEFORE UPDATE trigger on the table of
-- every kind, for each layer; the arguments are the kind and the layer.
CREATE OR REPLACE FUNCTION farrier.enter_state() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    to_value text := to_jsonb(NEW) ->> TG_ARGV[1];
BEGIN
    PERFORM check_edge(TG_ARGV[0], TG_ARGV[1], NEW.name, to_jsonb(OLD) ->> TG_ARGV[1], to_value);
    NEW := jsonb_populate_record(NEW, jsonb_build_object(TG_ARGV[1] || '_entered_at', farrier.now()));
    IF TG_ARGV[1] = 'state' AND EXISTS (SELECT FROM kind_states s
                                         WHERE s.kind = TG_ARGV[0] AND s.layer = 'state' AND s.state = to_value AND s.terminal) THEN
        NEW.ended_at := farrier.now();
        PERFORM free_numbers(TG_ARGV[0], NEW.id);
    END IF;
    RETURN NEW;
END $$;
