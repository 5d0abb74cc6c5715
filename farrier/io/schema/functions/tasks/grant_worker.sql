-- Lets a login claim tasks of these types, at one site or (null) at all sites. Replaces an earlier grant of the login.
-- The login also needs role farrier_worker, to call the functions. FR400 for an unknown type, FR404 for an unknown
-- login.
CREATE OR REPLACE FUNCTION farrier.grant_worker(login text, types text[], site text DEFAULT NULL) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    known text[] := ARRAY(SELECT t.type FROM task_types t ORDER BY t.type);
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = grant_worker.login) THEN
        RAISE EXCEPTION 'login % does not exist', coalesce(quote_literal(left(login, 80)), 'null')
            USING ERRCODE = 'FR404', HINT = 'Create it first: CREATE ROLE ... LOGIN IN ROLE farrier_worker.';
    END IF;
    IF coalesce(cardinality(types), 0) = 0 OR NOT types <@ known THEN
        RAISE EXCEPTION 'expected one or more task types, got %', coalesce(left(types::text, 200), 'null')
            USING ERRCODE = 'FR400', HINT = 'Known: ' || array_to_string(known, ', ');
    END IF;
    INSERT INTO workers AS w (login, types, site) VALUES (grant_worker.login, grant_worker.types, grant_worker.site)
        ON CONFLICT ON CONSTRAINT workers_pkey
        DO UPDATE SET types = excluded.types, site = excluded.site, granted_at = excluded.granted_at, granted_by = excluded.granted_by;
END $$;
