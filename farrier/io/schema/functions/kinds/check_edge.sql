-- Refuses a change of a layer of a resource for which the model has no edge (FR409). Called by the triggers that guard layers.
CREATE OR REPLACE FUNCTION farrier.check_edge(of_kind text, of_layer text, called text, from_value text, to_value text) RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    IF NOT farrier.is_edge(of_kind, of_layer, from_value, to_value) THEN
        RAISE EXCEPTION '% %: the model has no edge % -> % in layer %', replace(of_kind, '_', ' '), called, from_value, to_value, of_layer
            USING ERRCODE = 'FR409', HINT = 'farrier.edges lists every edge; submit an intent to request one.';
    END IF;
END $$;
