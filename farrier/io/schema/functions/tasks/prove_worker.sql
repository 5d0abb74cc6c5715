-- Returns the grant of the calling login (session_user, independent of SET ROLE). FR403 for a login without a grant, FR409 in
-- a restored database that no controller has recognised yet.
CREATE OR REPLACE FUNCTION farrier.prove_worker() RETURNS farrier.workers
    LANGUAGE plpgsql STABLE SET search_path = farrier, pg_temp AS $$
DECLARE
    granted workers := (SELECT w FROM workers w WHERE w.login = session_user);
BEGIN
    IF is_restored() THEN
        RAISE EXCEPTION 'the database was restored from a backup' USING ERRCODE = 'FR409', HINT = 'Repeat the call later.';
    END IF;
    IF granted.login IS NULL THEN
        RAISE EXCEPTION 'login % has no grant', session_user
            USING ERRCODE = 'FR403', HINT = 'An operator must call farrier.grant_worker with this login and its task types.';
    END IF;
    RETURN granted;
END $$;
