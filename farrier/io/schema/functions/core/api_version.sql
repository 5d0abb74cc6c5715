-- Returns the versions of the intent API that this database accepts. Every role of farrier may call it.
CREATE OR REPLACE FUNCTION farrier.api_version(OUT api_min integer, OUT api_max integer)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp
    RETURN ((farrier.read_constants()).api_min, (farrier.read_constants()).api_max);
