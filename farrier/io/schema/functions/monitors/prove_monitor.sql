-- Returns the grant of a monitor: of this name, or (null) of the calling login (session_user, independent of SET ROLE). FR403 without a
-- grant, FR409 in a restored database that no controller has recognised yet.
CREATE OR REPLACE FUNCTION farrier.prove_monitor(named text) RETURNS farrier.monitors
    LANGUAGE plpgsql STABLE SET search_path = farrier, pg_temp AS $$
DECLARE
    granted monitors := (SELECT m FROM monitors m WHERE CASE WHEN named IS NULL THEN m.login = session_user ELSE m.name = named END);
BEGIN
    IF is_restored() THEN
        RAISE EXCEPTION 'the database was restored from a backup' USING ERRCODE = 'FR409', HINT = 'Repeat the call later.';
    ELSIF granted.name IS NULL AND named IS NULL THEN
        RAISE EXCEPTION 'login % is the login of no monitor', session_user
            USING ERRCODE = 'FR403', HINT = 'The owner of the schema must call farrier.grant_monitor with this login.';
    ELSIF granted.name IS NULL THEN
        RAISE EXCEPTION 'no monitor is named %', quote_literal(left(named, 80))
            USING ERRCODE = 'FR403', HINT = 'The owner of the schema must call farrier.grant_monitor with the name of the token.';
    END IF;
    RETURN granted;
END $$;
