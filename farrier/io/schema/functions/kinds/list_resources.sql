-- Returns the resources of a kind, or of all kinds if of_kind is null, each with its last outcome. With `ended`,
-- includes resources that have ended. FR400 for an unknown kind, FR409 for a kind whose table was dropped.
CREATE OR REPLACE FUNCTION farrier.list_resources(of_kind text, ended boolean DEFAULT false)
    RETURNS TABLE (kind text, id bigint, name text, site text, state text, state_entered_at timestamptz, created_at timestamptz,
                   ended_at timestamptz, last_error text, detail jsonb, outcome jsonb, outcome_at timestamptz)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    one record;
BEGIN
    IF of_kind IS NOT NULL THEN PERFORM relation_of(of_kind); END IF;
    FOR one IN SELECT k.* FROM kinds k JOIN pg_class c ON c.oid = k.relation WHERE k.from_template AND (of_kind IS NULL OR k.kind = of_kind) ORDER BY k.kind LOOP
        RETURN QUERY EXECUTE format(
            'SELECT $1, r.id, r.name, r.site, r.state, r.state_entered_at, r.created_at, r.ended_at, r.last_error,
                    %s,
                    o.outcome, o.at
               FROM %s r
               LEFT JOIN farrier.outcomes o ON o.kind = $1 AND o.id = r.id
              WHERE $2 OR r.ended_at IS NULL
              ORDER BY r.name, r.id', detail_of(one.kind, one.relation), one.relation) USING one.kind, ended;
    END LOOP;
END $$;
