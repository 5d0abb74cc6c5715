-- Creates a pool of numbers, or changes its bounds. May be repeated. Waits for transactions that take numbers of the pool. FR400
-- for bounds that exclude each other, FR409 for bounds that exclude a number that is taken.
CREATE OR REPLACE FUNCTION farrier.set_pool(pool text, first integer, last integer) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
#variable_conflict use_column
DECLARE
    outside text;
BEGIN
    IF set_pool.first > set_pool.last THEN
        RAISE EXCEPTION 'pool % cannot range from % to %', set_pool.pool, set_pool.first, set_pool.last USING ERRCODE = 'FR400';
    END IF;
    -- Numbers below the old bounds may be free: next goes back, and take_number advances it again.
    INSERT INTO number_pools AS p VALUES (set_pool.pool, set_pool.first, set_pool.last, set_pool.first)
        ON CONFLICT (pool) DO UPDATE SET first = excluded.first, last = excluded.last,
            next = CASE WHEN excluded.first < p.first THEN excluded.first ELSE greatest(p.next, excluded.first) END;
    SELECT string_agg(format('%s (%s %s)', t.number, replace(t.kind, '_', ' '), t.id), ', ' ORDER BY t.number) INTO outside
      FROM (SELECT n.* FROM pool_numbers n WHERE n.pool = set_pool.pool
               AND n.number NOT BETWEEN set_pool.first AND set_pool.last ORDER BY n.number LIMIT 5) t;
    IF outside IS NOT NULL THEN
        RAISE EXCEPTION 'pool % cannot range from % to %: resources have these numbers outside the range: %', set_pool.pool, set_pool.first, set_pool.last, outside
            USING ERRCODE = 'FR409', HINT = 'Delete the resources with these numbers, or include the numbers.';
    END IF;
END $$;
