-- Refuses a version of the intent API that this database does not support (FR406); accepts null.
CREATE OR REPLACE FUNCTION farrier.refuse_version(api_version integer) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = farrier, pg_temp AS $$
DECLARE
    api constants := read_constants();
BEGIN
    IF api_version > api.api_max THEN
        RAISE EXCEPTION 'api_version % is not supported; this database supports versions % to %', api_version, api.api_min, api.api_max
            USING ERRCODE = 'FR406', HINT = format('The client is newer than this database, which supports at most version %s: '
                'upgrade farrier and its schema (farrier db migrate), or use api_version %1$s.', api.api_max);
    ELSIF api_version < api.api_min THEN
        RAISE EXCEPTION 'api_version % is not supported; this database supports versions % to %', api_version, api.api_min, api.api_max
            USING ERRCODE = 'FR406', HINT = format('The client is older than this database: upgrade it, or use api_version %s.', api.api_min);
    END IF;
END $$;
