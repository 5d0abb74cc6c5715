-- Returns how many resources of a kind that have not ended are in each state of the layers in the kind's own table. Null
-- counts resources of all kinds.
CREATE OR REPLACE FUNCTION farrier.count_states(of_kind text) RETURNS TABLE (kind text, layer text, state text, n bigint)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    one record;
BEGIN
    FOR one IN SELECT k.kind, l.layer, k.relation, k.living
                 FROM kinds k JOIN pg_class c ON c.oid = k.relation JOIN kind_layers l USING (kind)
                WHERE l.relation IS NULL AND (of_kind IS NULL OR k.kind = of_kind) LOOP
        RETURN QUERY EXECUTE format('SELECT $1, $2, r.%1$I::text, count(*) FROM %2$s r WHERE %3$s GROUP BY r.%1$I',
                                    one.layer, one.relation, one.living) USING one.kind, one.layer;
    END LOOP;
END $$;
