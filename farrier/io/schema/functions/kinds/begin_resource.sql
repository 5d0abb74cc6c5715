-- Sets each layer of a new row to its initial state, if the row has no value for the layer and the layer has exactly one initial
-- state. Sets the time of the layer, if the row has none. Raises FR409 for a value that is not an initial state, and if the kind
-- has no states. BEFORE INSERT trigger on the table of every kind; the argument is the kind.
CREATE OR REPLACE FUNCTION farrier.begin_resource() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    given jsonb := to_jsonb(NEW);
    one record;
BEGIN
    FOR one IN SELECT s.layer, array_agg(s.state ORDER BY s.state) FILTER (WHERE s.initial) AS first
                 FROM kind_states s WHERE s.kind = TG_ARGV[0] AND given ? s.layer GROUP BY s.layer LOOP
        IF given ->> one.layer IS NULL AND cardinality(one.first) = 1 THEN
            NEW := jsonb_populate_record(NEW, jsonb_build_object(one.layer, one.first[1]));
        ELSIF (given ->> one.layer = ANY (one.first)) IS NOT TRUE THEN
            RAISE EXCEPTION 'a new % cannot have the state % in layer %', replace(TG_ARGV[0], '_', ' '), given ->> one.layer, one.layer
                USING ERRCODE = 'FR409', HINT = format('It begins as %s.', array_to_string(one.first, ' or '));
        END IF;
        IF given ->> (one.layer || '_entered_at') IS NULL THEN
            NEW := jsonb_populate_record(NEW, jsonb_build_object(one.layer || '_entered_at', farrier.now()));
        END IF;
    END LOOP;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'kind % has no states yet', TG_ARGV[0]
            USING ERRCODE = 'FR409', HINT = 'Run farrier db migrate for a built-in kind, farrier kind install for another.';
    END IF;
    RETURN NEW;
END $$;
