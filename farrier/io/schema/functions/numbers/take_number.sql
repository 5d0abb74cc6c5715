-- Takes a number of a pool for a resource and returns it: the wanted number or, if wanted is null, the lowest free
-- number. Locks the pool's row until the transaction ends, so transactions that take numbers of one pool take turns.
-- FR409 for an unknown pool, a pool without a free number, and a wanted number that is taken or not in the pool.
CREATE OR REPLACE FUNCTION farrier.take_number(pool text, kind text, id bigint, wanted integer DEFAULT NULL) RETURNS integer
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
        RAISE EXCEPTION 'pool % does not exist', coalesce(quote_literal(pool), 'null')
            USING ERRCODE = 'FR409', HINT = format('Create the pool with SELECT farrier.set_pool(%L, first, last).', pool);
    END IF;
    IF wanted IS NULL THEN
        mark := bounds.next;
        SELECT f.number INTO taken FROM freed_numbers f
         WHERE f.pool = take_number.pool AND f.number BETWEEN bounds.first AND bounds.last ORDER BY f.number LIMIT 1;
        IF taken IS NULL OR taken >= mark THEN
            -- Moves the mark past numbers that were taken by `wanted`.
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
            RAISE EXCEPTION 'pool % is exhausted: all numbers from % to % are taken', pool, bounds.first, bounds.last
                USING ERRCODE = 'FR409', HINT = 'Extend the pool with farrier.set_pool().';
        END IF;
    ELSIF wanted NOT BETWEEN bounds.first AND bounds.last THEN
        RAISE EXCEPTION '% is not in pool %, which ranges from % to %', wanted, pool, bounds.first, bounds.last USING ERRCODE = 'FR409';
    ELSE
        SELECT n.kind, n.id INTO holder FROM pool_numbers n WHERE n.pool = take_number.pool AND n.number = wanted;
        IF FOUND THEN
            RAISE EXCEPTION 'number % of pool % is taken by % %', wanted, pool, replace(holder.kind, '_', ' '), holder.id
                USING ERRCODE = 'FR409', HINT = 'Omit the number to get a free one.';
        END IF;
        taken := wanted;
    END IF;
    DELETE FROM freed_numbers f WHERE f.pool = take_number.pool AND f.number = taken;
    INSERT INTO pool_numbers VALUES (pool, taken, take_number.kind, take_number.id);
    RETURN taken;
END $$;
