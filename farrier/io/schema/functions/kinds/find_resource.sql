-- Returns the id of a resource that has not ended, by its name or id. FR404 if there is none, FR400 for an unknown
-- kind.
CREATE OR REPLACE FUNCTION farrier.find_resource(of_kind text, given text) RETURNS bigint
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    found_id bigint;
    ended timestamptz;
BEGIN
    EXECUTE format(CASE WHEN given ~ '^[0-9]{1,18}$' THEN 'SELECT r.id, r.ended_at FROM %s r WHERE r.id = $1::bigint'
                        ELSE 'SELECT r.id, r.ended_at FROM %s r WHERE r.name = $1 AND r.ended_at IS NULL' END,
                   relation_of(of_kind)) INTO found_id, ended USING given;
    IF found_id IS NULL THEN
        RAISE EXCEPTION 'no % is named % (expected a name or an ID)', replace(of_kind, '_', ' '), coalesce(quote_literal(given), 'null')
            USING ERRCODE = 'FR404', HINT = format('List the resources of kind %s to find its name.', of_kind);
    END IF;
    IF ended IS NOT NULL THEN
        RAISE EXCEPTION '% % has ended', replace(of_kind, '_', ' '), given
            USING ERRCODE = 'FR404', HINT = 'Create the resource again; it gets a new ID.';
    END IF;
    RETURN found_id;
END $$;
