-- Returns the resources of these shards that a controller loads: those that have not ended, and those with a wake or
-- the mark of a step, for which `woken` is true. A resource may have several rows.
CREATE OR REPLACE FUNCTION farrier.list_shards(of_kind text, of_shards smallint[]) RETURNS TABLE (id bigint, woken boolean, step text)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    kind kinds := kind_of(of_kind);
BEGIN
    RETURN QUERY SELECT DISTINCT w.resource, true, NULL FROM wakes w WHERE w.kind = of_kind AND shard_of(w.resource) = ANY (of_shards);
    RETURN QUERY SELECT e.resource, true, e.step FROM effects e WHERE e.kind = of_kind AND shard_of(e.resource) = ANY (of_shards);
    -- ARRAY(...) hides the number of shards from the planner: if it estimated many, it would read the table in the order of the
    -- index.
    RETURN QUERY EXECUTE format('SELECT id, false, NULL::text FROM %s WHERE farrier.shard_of(id) = ANY (ARRAY(SELECT unnest($1))) AND %s',
                                kind.relation, kind.living) USING of_shards;
END $$;
