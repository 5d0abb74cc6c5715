-- Returns the ids of the resources that exist and have not ended. Raises an error for an unknown kind and a kind
-- without a table; see kind_of.
CREATE OR REPLACE FUNCTION farrier.living(of_kind text, ids bigint[]) RETURNS SETOF bigint
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    kind kinds := kind_of(of_kind);
BEGIN
    RETURN QUERY EXECUTE format('SELECT id FROM %s WHERE id = ANY ($1) AND %s', kind.relation, kind.living) USING ids;
END $$;
