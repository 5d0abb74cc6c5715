-- Releases all numbers of a resource; enter_state does so when a resource ends. May be repeated. Locks no pool, so it does not
-- wait for transactions that take numbers.
CREATE OR REPLACE FUNCTION farrier.free_numbers(kind text, id bigint) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
    WITH gone AS (DELETE FROM pool_numbers n WHERE n.kind = $1 AND n.id = $2 RETURNING n.pool, n.number)
    INSERT INTO freed_numbers SELECT g.pool, g.number FROM gone g ON CONFLICT DO NOTHING;
$$;
