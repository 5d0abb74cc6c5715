-- Returns the states of a layer in which a kind has resources that have not ended, and null if a resource lacks the state or the time
-- when it entered the state. Locks the kind's table against changes until the transaction ends, so that the result stays true.
CREATE OR REPLACE FUNCTION farrier.inhabited_states(of_kind text, layer text) RETURNS SETOF text
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
BEGIN
    EXECUTE format('LOCK TABLE %s IN SHARE ROW EXCLUSIVE MODE', relation_of(of_kind));
    RETURN QUERY EXECUTE format('SELECT DISTINCT CASE WHEN r.%3$I IS NOT NULL THEN r.%2$I END AS state FROM %1$s r
                                  WHERE r.ended_at IS NULL OR r.%2$I IS NULL OR r.%3$I IS NULL ORDER BY state',
                                relation_of(of_kind), layer, layer || '_entered_at');
END $$;
