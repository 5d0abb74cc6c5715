-- Returns the grant of the login that calls (session_user, whichever role it has set). FR403 without one.
CREATE OR REPLACE FUNCTION farrier.prove_worker() RETURNS farrier.workers
    LANGUAGE plpgsql STABLE SET search_path = farrier, pg_temp AS $$
DECLARE
    granted workers := (SELECT w FROM workers w WHERE w.login = session_user);
BEGIN
    IF granted.login IS NULL THEN
        RAISE EXCEPTION 'login % has no grant', session_user
            USING ERRCODE = 'FR403', HINT = 'An operator must call farrier.grant_worker with this login and its task types.';
    END IF;
    RETURN granted;
END $$;
