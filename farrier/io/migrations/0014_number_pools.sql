-- Pools of numbers that resources take: VLANs, keys of partitions. However many are taken, the lowest free one is found at
-- once: it is the lowest that was given back, or the first that nobody has at or above the mark `next`, below which every
-- number of the pool is taken or was given back.
CREATE TABLE farrier.number_pools (
    pool  text    PRIMARY KEY,
    first integer NOT NULL,
    last  integer NOT NULL,
    next  bigint  NOT NULL,
    CHECK (first <= last AND first <= next)
);
CREATE TABLE farrier.pool_numbers (
    pool   text    NOT NULL REFERENCES farrier.number_pools,
    number integer NOT NULL,
    kind   text    NOT NULL,
    id     bigint  NOT NULL,
    PRIMARY KEY (pool, number)
);
CREATE INDEX pool_numbers_holder ON farrier.pool_numbers (kind, id);
-- No reference to the pool: whoever gives back waits for no taker.
CREATE TABLE farrier.freed_numbers (
    pool   text    NOT NULL,
    number integer NOT NULL,
    PRIMARY KEY (pool, number)
);

-- Makes a pool, or gives it other bounds. May be called again. Waits for those who take numbers.
CREATE FUNCTION farrier.set_pool(pool text, first integer, last integer) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
#variable_conflict use_column
DECLARE
    outside text;
BEGIN
    IF set_pool.first > set_pool.last THEN
        RAISE EXCEPTION 'pool % would go from % to %', set_pool.pool, set_pool.first, set_pool.last USING ERRCODE = 'FR400';
    END IF;
    -- What is below the old bounds was never looked at: the mark goes back, and the next taker finds its place again.
    INSERT INTO number_pools AS p VALUES (set_pool.pool, set_pool.first, set_pool.last, set_pool.first)
        ON CONFLICT (pool) DO UPDATE SET first = excluded.first, last = excluded.last,
            next = CASE WHEN excluded.first < p.first THEN excluded.first ELSE greatest(p.next, excluded.first) END;
    SELECT string_agg(format('%s (%s %s)', t.number, replace(t.kind, '_', ' '), t.id), ', ' ORDER BY t.number) INTO outside
      FROM (SELECT n.* FROM pool_numbers n WHERE n.pool = set_pool.pool
               AND n.number NOT BETWEEN set_pool.first AND set_pool.last ORDER BY n.number LIMIT 5) t;
    IF outside IS NOT NULL THEN
        RAISE EXCEPTION 'pool % cannot go from % to %: taken outside are %', set_pool.pool, set_pool.first, set_pool.last, outside
            USING ERRCODE = 'FR409', HINT = 'Delete what has those numbers, or keep them inside.';
    END IF;
END $$;

-- Takes a number for a resource: the one that is wanted, else the lowest that is free. Takers of one pool take turns: each
-- has the pool until its transaction ends.
CREATE FUNCTION farrier.take_number(pool text, kind text, id bigint, wanted integer DEFAULT NULL) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    bounds record;
    holder record;
    ahead integer;
    mark bigint;
    taken integer;
BEGIN
    SELECT p.first, p.last, p.next INTO bounds FROM number_pools p WHERE p.pool = take_number.pool FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no pool %', coalesce(quote_literal(pool), 'null')
            USING ERRCODE = 'FR409', HINT = format('SELECT farrier.set_pool(%L, first, last) makes one.', pool);
    END IF;
    IF wanted IS NULL THEN
        mark := bounds.next;
        SELECT f.number INTO taken FROM freed_numbers f
         WHERE f.pool = take_number.pool AND f.number BETWEEN bounds.first AND bounds.last ORDER BY f.number LIMIT 1;
        IF taken IS NULL OR taken >= mark THEN
            -- Past numbers that were wanted, each of which is passed once.
            FOR ahead IN SELECT n.number FROM pool_numbers n WHERE n.pool = take_number.pool AND n.number >= mark ORDER BY n.number LOOP
                EXIT WHEN ahead > mark;
                mark := mark + 1;
            END LOOP;
            IF mark <= bounds.last THEN
                taken := mark;
                mark := mark + 1;
            END IF;
        END IF;
        IF mark <> bounds.next THEN UPDATE number_pools p SET next = mark WHERE p.pool = take_number.pool; END IF;
        IF taken IS NULL THEN
            RAISE EXCEPTION 'pool % is empty: all of % to % are taken', pool, bounds.first, bounds.last
                USING ERRCODE = 'FR409', HINT = 'farrier.set_pool() widens it.';
        END IF;
    ELSIF wanted NOT BETWEEN bounds.first AND bounds.last THEN
        RAISE EXCEPTION '% is not in pool %, which goes from % to %', wanted, pool, bounds.first, bounds.last USING ERRCODE = 'FR409';
    ELSE
        SELECT n.kind, n.id INTO holder FROM pool_numbers n WHERE n.pool = take_number.pool AND n.number = wanted;
        IF FOUND THEN
            RAISE EXCEPTION '% of pool % is taken by % %', wanted, pool, replace(holder.kind, '_', ' '), holder.id
                USING ERRCODE = 'FR409', HINT = 'Leave it out to get one that is free.';
        END IF;
        taken := wanted;
    END IF;
    DELETE FROM freed_numbers f WHERE f.pool = take_number.pool AND f.number = taken;
    INSERT INTO pool_numbers VALUES (pool, taken, take_number.kind, take_number.id);
    RETURN taken;
END $$;

-- Gives back all numbers of a resource; waits for nobody. May be called again. A resource that ends does it by itself.
CREATE FUNCTION farrier.free_numbers(kind text, id bigint) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
    WITH gone AS (DELETE FROM pool_numbers n WHERE n.kind = $1 AND n.id = $2 RETURNING n.pool, n.number)
    INSERT INTO freed_numbers SELECT g.pool, g.number FROM gone g ON CONFLICT DO NOTHING;
$$;
