-- Raises FR409 for a change of a node's layer that the model has no edge for.
CREATE OR REPLACE FUNCTION farrier.refuse_edge(layer text, id bigint, from_value text, to_value text) RETURNS void
    LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'node %: the model has no edge % -> % in layer %', id, from_value, to_value, layer
        USING ERRCODE = 'FR409', HINT = 'farrier model --format md lists every edge; intents are how to ask for one.';
END $$;
