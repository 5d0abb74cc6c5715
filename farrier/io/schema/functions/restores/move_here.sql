-- Records that this database is the one in service, in a new place, and lifts all holds. Returns the number of lifted holds.
CREATE OR REPLACE FUNCTION farrier.move_here() RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    many bigint;
BEGIN
    PERFORM settle_here(false);
    WITH lifted AS (
        UPDATE restore_holds h SET lifted_at = farrier.now(), reason = 'moved, not restored', lifted_by = session_user
         WHERE h.lifted_at IS NULL RETURNING h.kind, h.id
    ), woken AS (
        INSERT INTO wakes (kind, resource) SELECT l.kind, l.id FROM lifted l ORDER BY l.kind, l.id
    )
    SELECT count(*) INTO many FROM lifted;
    RETURN many;
END $$;
