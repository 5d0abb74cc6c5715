-- Returns the details that the parameters of intent `set` give; the details that `unset` names are null.
CREATE OR REPLACE FUNCTION farrier.given_details(params jsonb) RETURNS jsonb
    LANGUAGE sql STABLE
    RETURN (params - '{unset, if_version}'::text[])
        || coalesce((SELECT jsonb_object_agg(u, NULL) FROM jsonb_array_elements_text(params -> 'unset') u), '{}');
