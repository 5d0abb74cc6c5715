-- The id of a resource by its id, or by the name it has now, or by the name that only ended ones had; null if none ever had it.
CREATE OR REPLACE FUNCTION farrier.any_resource(kind text, given text) RETURNS bigint
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    found_id bigint;
BEGIN
    EXECUTE format($q$
        SELECT coalesce((SELECT r.id FROM %1$s r WHERE r.id = CASE WHEN $1 ~ '^[0-9]{1,18}$' THEN $1::bigint END),
                        (SELECT r.id FROM %1$s r WHERE r.name = $1 AND r.ended_at IS NULL),
                        (SELECT max(r.id) FROM %1$s r WHERE r.name = $1))
    $q$, relation_of(kind)) INTO found_id USING given;
    RETURN found_id;
END $$;
