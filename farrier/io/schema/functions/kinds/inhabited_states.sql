-- Returns the states of a layer in which a kind has resources that have not ended. Locks the kind's table against
-- changes until the transaction ends, so that the result stays true.
CREATE OR REPLACE FUNCTION farrier.inhabited_states(of_kind text, layer text) RETURNS SETOF text
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
BEGIN
    EXECUTE format('LOCK TABLE %s IN SHARE ROW EXCLUSIVE MODE', relation_of(of_kind));
    RETURN QUERY EXECUTE format('SELECT DISTINCT r.%2$I FROM %1$s r WHERE r.ended_at IS NULL ORDER BY r.%2$I', relation_of(of_kind), layer);
END $$;
