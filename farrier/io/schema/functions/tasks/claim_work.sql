-- Claims the oldest queued task of any node that the grant of the calling login covers among types (null: all that are granted),
-- and returns it with its lease; no row if there is none. Called by workers, which their login identifies. FR400 for malformed
-- arguments, FR403 for a login without a grant or a type that is not granted.
CREATE OR REPLACE FUNCTION farrier.claim_work(types text[] DEFAULT NULL, lease interval DEFAULT '60 seconds')
    RETURNS TABLE (task bigint, node_id bigint, node_name text, type text, params jsonb, attempt integer, lease_token uuid, lease_until timestamptz)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    granted workers := prove_worker();
    wanted text[] := coalesce(types, granted.types);
BEGIN
    IF NOT wanted <@ granted.types THEN
        RAISE EXCEPTION 'login % is granted tasks of types %, but claims %', session_user, array_to_string(granted.types, ', '), left(wanted::text, 200)
            USING ERRCODE = 'FR403', HINT = 'Omit types to claim any granted type.';
    END IF;
    RETURN QUERY SELECT * FROM take_task('worker ' || granted.login, wanted, NULL, granted.site, lease);
END $$;
