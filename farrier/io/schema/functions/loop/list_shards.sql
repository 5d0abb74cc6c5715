-- Returns the resources of these shards that a controller has to know: those that have not ended, and those with a wake or the
-- mark of a step, which are `woken`. A resource may have several rows.
CREATE OR REPLACE FUNCTION farrier.list_shards(of_kind text, of_shards smallint[]) RETURNS TABLE (id bigint, woken boolean, step text)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    RETURN QUERY SELECT DISTINCT w.resource, true, NULL FROM wakes w WHERE w.kind = of_kind AND shard_of(w.resource) = ANY (of_shards);
    RETURN QUERY SELECT e.resource, true, e.step FROM effects e WHERE e.kind = of_kind AND shard_of(e.resource) = ANY (of_shards);
    CASE of_kind
        WHEN 'node' THEN RETURN QUERY SELECT n.id, false, NULL FROM nodes n WHERE shard_of(n.id) = ANY (of_shards) AND n.status <> 'deleted';
        WHEN 'maas_region' THEN RETURN QUERY SELECT r.id, false, NULL FROM maas_regions r WHERE shard_of(r.id) = ANY (of_shards);
        ELSE RETURN QUERY EXECUTE format('SELECT id, false, NULL::text FROM %s WHERE farrier.shard_of(id) = ANY ($1) AND ended_at IS NULL', relation_of(of_kind)) USING of_shards;
    END CASE;
END $$;
