-- Refuses a change of state that the kind has no edge for (FR409), and ends a resource that enters a terminal state: sets
-- ended_at and gives its numbers back. BEFORE UPDATE trigger on the table of every kind; the argument is the kind.
CREATE OR REPLACE FUNCTION farrier.enter_state() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    PERFORM check_edge(TG_ARGV[0], 'state', NEW.name, OLD.state, NEW.state);
    NEW.state_entered_at := farrier.now();
    IF EXISTS (SELECT FROM kind_states s WHERE s.kind = TG_ARGV[0] AND s.state = NEW.state AND s.terminal) THEN
        NEW.ended_at := farrier.now();
        PERFORM free_numbers(TG_ARGV[0], NEW.id);
    END IF;
    RETURN NEW;
END $$;
