-- Returns, for each state of each layer, the resources that exceed their limit in it: at most `most`, those furthest above
-- it. The arrays are limits as in count_resources.
CREATE OR REPLACE FUNCTION farrier.late_resources(kinds text[], states text[], scopes text[], names text[], limits interval[], most integer)
    RETURNS TABLE (kind text, layer text, id bigint, name text, site text, state text, since timestamptz, lasts interval, last_error text)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    one record;
BEGIN
    FOR one IN SELECT l.kind, l.layer, l.label, k.relation, model_of(k.relation) AS model FROM kinds k JOIN pg_class c ON c.oid = k.relation JOIN kind_layers l USING (kind)
                WHERE k.from_template ORDER BY l.label LOOP
        RETURN QUERY EXECUTE format($q$
            WITH changed AS MATERIALIZED (
                SELECT c.* FROM unnest($2, $3, $9, $4, $5) AS c (kind, state, scope, name, lasts) WHERE c.kind = $1),
            known AS MATERIALIZED (
                SELECT s.state, coalesce((SELECT c.lasts FROM changed c WHERE c.state = s.state AND c.scope = ''), s.sla) AS lasts,
                       (SELECT min(c.lasts) FROM changed c WHERE c.state = s.state AND c.scope <> '') AS of_some
                  FROM farrier.kind_states s WHERE s.kind = $8 AND s.layer = %2$L AND NOT s.terminal)
            SELECT $8, %2$L, l.*
              FROM known k CROSS JOIN LATERAL (
                   SELECT r.id, r.name, r.site, r.%2$I, r.%3$I AS since, coalesce(s.lasts, m.lasts, k.lasts) AS lasts, r.last_error
                     FROM %1$s r
                     LEFT JOIN changed s ON s.state = k.state AND s.scope = 'site' AND s.name = r.site
                     LEFT JOIN changed m ON m.state = k.state AND m.scope = 'model' AND m.name = %4$s
                    WHERE r.%2$I = k.state AND r.ended_at IS NULL
                      AND r.%3$I < $7 - least(k.lasts, k.of_some)
                      AND r.%3$I < $7 - coalesce(s.lasts, m.lasts, k.lasts)
                    ORDER BY r.%3$I + coalesce(s.lasts, m.lasts, k.lasts), r.id
                    LIMIT $6) l
        $q$, one.relation, one.layer, one.layer || '_entered_at', one.model)
        USING one.label, kinds, states, names, limits, most, farrier.now(), one.kind, scopes;
    END LOOP;
END $$;
