-- Returns the table of a kind that was created like farrier.resources. FR400 for any other kind, FR409 for a kind whose
-- table was dropped; functions that read all kinds skip such a kind.
CREATE OR REPLACE FUNCTION farrier.relation_of(of_kind text) RETURNS regclass
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
    SELECT k.relation FROM kind_of(of_kind, true) k
$$;
