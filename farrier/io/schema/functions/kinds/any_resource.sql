-- Returns the id of the living resource with this name; if there is none, of the resource with this id; if there is
-- none, of the newest ended resource with this name; otherwise null. FR400 for an unknown kind, FR409 for a kind whose
-- table was dropped.
CREATE OR REPLACE FUNCTION farrier.any_resource(kind text, given text) RETURNS bigint
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    wanted kinds := kind_of(kind);
    found_id bigint;
BEGIN
    EXECUTE format($q$
        SELECT coalesce((SELECT r.id FROM %1$s r WHERE r.%2$I = $1 AND %3$s),
                        (SELECT r.id FROM %1$s r WHERE r.id = CASE WHEN $1 ~ '^[0-9]{1,18}$' THEN $1::bigint END),
                        (SELECT max(r.id) FROM %1$s r WHERE r.%2$I = $1 AND NOT (%3$s)))
    $q$, wanted.relation, wanted.named, wanted.living) INTO found_id USING given;
    RETURN found_id;
END $$;
