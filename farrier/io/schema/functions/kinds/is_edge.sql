-- Returns whether the model has an edge between two values of a layer of a kind.
CREATE OR REPLACE FUNCTION farrier.is_edge(of_kind text, of_layer text, from_value text, to_value text) RETURNS boolean
    LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN EXISTS (SELECT FROM farrier.edges e
                    WHERE e.kind = of_kind AND e.layer = of_layer AND e.from_value = is_edge.from_value AND e.to_value = is_edge.to_value);
END $$;
