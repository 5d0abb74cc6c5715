-- Returns the range of systems that a BMC address covers, independent of its spelling: the one system at its path, or,
-- without a path, all systems behind its host and port. Case, scheme, user, default port and trailing slashes make no
-- difference. Names are not resolved, so a name and its IP address are two addresses.
CREATE OR REPLACE FUNCTION farrier.bmc_span_of(address text) RETURNS farrier.bmc_span
    LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE SET search_path = farrier, pg_temp AS $$
DECLARE
    bare text := regexp_replace(regexp_replace(address, '[?#].*$', ''), '^[A-Za-z][A-Za-z0-9+.-]*://', '');
    authority text := lower(regexp_replace(substring(bare FROM '^[^/]*'), '^.*@', ''));
    path text := rtrim(substring(bare FROM '/.*$'), '/');
    parts text[];
    host text;
    place text;
BEGIN
    IF authority ~ '^[^][]*:[^][]*:' THEN authority := '[' || authority || ']'; END IF;  -- IPv6, without brackets
    parts := regexp_match(authority, '^(.*?)(?::([0-9]*))?$');
    host := rtrim(parts[1], '.');
    IF host ~ E'^\\[.*\\]$' THEN
        BEGIN
            host := regexp_replace(host(btrim(host, '[]')::inet), E'^::ffff:(?=[0-9]+\\.)', '');
        EXCEPTION WHEN invalid_text_representation THEN
            NULL;  -- not a valid address; equal only to itself
        END;
    END IF;
    place := host || ':' || coalesce(nullif(ltrim(parts[2], '0'), ''), '443');
    IF coalesce(path, '') = '' THEN
        RETURN bmc_span(place || '/', place || '0', '[)');  -- in collation C, 0 is the character after /
    END IF;
    RETURN bmc_span(place || path, place || path, '[]');
END $$;
