-- Makes the shards of a kind. May be repeated.
CREATE OR REPLACE FUNCTION farrier.make_shards(of_kind text) RETURNS void
    LANGUAGE sql SET search_path = farrier, pg_temp AS $$
    INSERT INTO shards (kind, shard) SELECT of_kind, generate_series(0, 63) ON CONFLICT DO NOTHING;
$$;
