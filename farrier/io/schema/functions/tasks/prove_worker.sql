-- Returns the grant of the calling login (session_user, independent of SET ROLE). FR403 for a login without a grant.
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
