-- Returns the states that resources of a kind are in which have not ended, and locks the kind's table against changes until the
-- transaction ends, so that the result stays true.
CREATE OR REPLACE FUNCTION farrier.inhabited_states(of_kind text) RETURNS SETOF text
    LANGUAGE plpgsql SET search_path = farrier, pg_temp AS $$
BEGIN
    EXECUTE format('LOCK TABLE %s IN SHARE ROW EXCLUSIVE MODE', relation_of(of_kind));
    RETURN QUERY EXECUTE format('SELECT DISTINCT r.state FROM %s r WHERE r.ended_at IS NULL ORDER BY r.state', relation_of(of_kind));
END $$;
