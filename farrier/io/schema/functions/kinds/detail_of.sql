-- How `detail` is read of a row `r`: the columns of the kind's own, and what KIND_detail(id) adds, where there is such a
-- function in the schema of the kind's table.
CREATE OR REPLACE FUNCTION farrier.detail_of(of_kind text, relation regclass) RETURNS text
    LANGUAGE plpgsql STABLE SET search_path = farrier, pg_temp AS $$
DECLARE
    adds text := (SELECT format('%I.%I', c.relnamespace::regnamespace::text, of_kind || '_detail') FROM pg_class c WHERE c.oid = relation);
BEGIN
    RETURN 'to_jsonb(r) - ''{id,name,site,version,state,state_entered_at,created_at,ended_at,last_error}''::text[]'
           || CASE WHEN to_regprocedure(adds || '(bigint)') IS NULL THEN '' ELSE format(' || coalesce(%s(r.id), ''{}'')', adds) END;
END $$;
