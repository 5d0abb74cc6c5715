-- Returns the SQL expression of `detail` for a row r of a kind's table: the columns of the kind's own and, where the table's
-- schema has a function KIND_detail(bigint) RETURNS jsonb, what that returns.
CREATE OR REPLACE FUNCTION farrier.detail_of(of_kind text, relation regclass) RETURNS text
    LANGUAGE plpgsql STABLE SET search_path = farrier, pg_temp AS $$
DECLARE
    adds text := (SELECT format('%I.%I', c.relnamespace::regnamespace::text, of_kind || '_detail') FROM pg_class c WHERE c.oid = relation);
BEGIN
    RETURN 'to_jsonb(r) - ''{id,name,site,version,state,state_entered_at,created_at,ended_at,last_error}''::text[]'
           || CASE WHEN to_regprocedure(adds || '(bigint)') IS NULL THEN '' ELSE format(' || coalesce(%s(r.id), ''{}'')', adds) END;
END $$;
