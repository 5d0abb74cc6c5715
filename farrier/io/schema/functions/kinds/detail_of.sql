-- Returns the SQL expression of `detail` for a row r of a kind's table: the columns that only this kind has and, if the table's
-- schema has a function KIND_detail(bigint) RETURNS jsonb, the result of that function.
CREATE OR REPLACE FUNCTION farrier.detail_of(of_kind text, relation regclass) RETURNS text
    LANGUAGE plpgsql STABLE SET search_path = farrier, pg_temp AS $$
DECLARE
    adds text := (SELECT format('%I.%I', s.nspname, of_kind || '_detail')
                      FROM pg_class c JOIN pg_namespace s ON s.oid = c.relnamespace WHERE c.oid = relation);
BEGIN
    RETURN 'to_jsonb(r) - ''{id,name,site,version,commit_id,state,state_entered_at,created_at,ended_at,last_error}''::text[]'
           || CASE WHEN to_regprocedure(adds || '(bigint)') IS NULL THEN '' ELSE format(' || coalesce(%s(r.id), ''{}'')', adds) END;
END $$;
