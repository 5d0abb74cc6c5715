-- Refuses a change of a layer of a resource that the model has no edge for (FR409). Called by the triggers that guard layers.
CREATE OR REPLACE FUNCTION farrier.check_edge(of_kind text, of_layer text, called text, from_value text, to_value text) RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM farrier.edges e
                    WHERE e.kind = of_kind AND e.layer = of_layer AND e.from_value = check_edge.from_value AND e.to_value = check_edge.to_value) THEN
        RAISE EXCEPTION '% %: the model has no edge % -> % in layer %', replace(of_kind, '_', ' '), called, from_value, to_value, of_layer
            USING ERRCODE = 'FR409', HINT = 'farrier.edges lists every edge; submit an intent to request one.';
    END IF;
END $$;
