-- Removes the grant of a login, which can then neither renew nor finish its tasks; they are issued again when their leases end. FR404
-- for a login without a grant.
CREATE OR REPLACE FUNCTION farrier.revoke_worker(login text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
BEGIN
    DELETE FROM workers w WHERE w.login = revoke_worker.login;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'login % has no grant', coalesce(quote_literal(left(login, 80)), 'null')
            USING ERRCODE = 'FR404', HINT = 'SELECT login FROM farrier.workers lists the logins with grants.';
    END IF;
END $$;
