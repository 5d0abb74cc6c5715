-- Returns a node's row with the values of intent `set` in place of its own; those that `unset` names are null.
CREATE OR REPLACE FUNCTION farrier.with_details(was farrier.nodes, params jsonb) RETURNS farrier.nodes
    LANGUAGE plpgsql STABLE SET search_path = farrier, pg_temp AS $$
DECLARE
    unset jsonb := (SELECT jsonb_object_agg(u, NULL) FROM jsonb_array_elements_text(params -> 'unset') u);
BEGIN
    RETURN jsonb_populate_record(was, (params - 'macs' - 'unset') || coalesce(unset, '{}'));
END $$;
