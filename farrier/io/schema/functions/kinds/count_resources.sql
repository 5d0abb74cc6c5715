-- Returns a row for each layer, by its label, and each state that is not terminal: how many resources are in the state,
-- when the first of them entered it, how many exceed their limit, and the limit without overrides by site or model.
-- Elements of the five arrays with the same position are one limit that differs from the kind's: label, state, scope,
-- name, lasts, as in farrier.limits. Counts resources above the longest limit by an index alone; reads sites and models
-- only for resources whose time in the state is between the shortest and the longest limit of the state.
CREATE OR REPLACE FUNCTION farrier.count_resources(kinds text[], states text[], scopes text[], names text[], limits interval[])
    RETURNS TABLE (kind text, state text, n bigint, first timestamptz, above bigint, lasts interval)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    one record;
BEGIN
    FOR one IN SELECT l.kind, l.layer, l.label, k.relation, model_of(k.relation) AS model FROM kinds k JOIN pg_class c ON c.oid = k.relation JOIN kind_layers l USING (kind)
                WHERE k.from_template ORDER BY l.label LOOP
        RETURN QUERY EXECUTE format($q$
            WITH changed AS MATERIALIZED (
                SELECT c.* FROM unnest($2, $3, $8, $4, $5) AS c (kind, state, scope, name, lasts) WHERE c.kind = $1),
            known AS MATERIALIZED (
                SELECT s.state, own.lasts, $6 - own.lasts AS late_before,
                       $6 - CASE WHEN o.least IS NOT NULL THEN least(own.lasts, o.least) END AS first_late,
                       coalesce($6 - greatest(own.lasts, o.most), '-infinity') AS all_late
                  FROM farrier.kind_states s
                 CROSS JOIN LATERAL (
                       SELECT coalesce((SELECT c.lasts FROM changed c WHERE c.state = s.state AND c.scope = ''), s.sla) AS lasts) own
                 CROSS JOIN LATERAL (
                       SELECT min(c.lasts) AS least, CASE WHEN own.lasts IS NOT NULL THEN max(c.lasts) END AS most
                         FROM changed c WHERE c.state = s.state AND c.scope <> '') o
                 WHERE s.kind = $7 AND s.layer = %2$L AND NOT s.terminal),
            counted AS MATERIALIZED (
                SELECT r.%2$I AS state, count(*) AS n, min(r.%3$I) AS first FROM %1$s r WHERE r.ended_at IS NULL GROUP BY r.%2$I),
            otherwise AS MATERIALIZED (
                SELECT k.state, count(*) FILTER (WHERE r.%3$I < $6 - coalesce(s.lasts, m.lasts))
                                - count(*) FILTER (WHERE coalesce(s.lasts, m.lasts) IS NOT NULL AND r.%3$I < k.late_before) AS n
                  FROM known k
                  JOIN %1$s r ON r.%2$I = k.state AND r.ended_at IS NULL
                   AND r.%3$I >= k.all_late AND r.%3$I < k.first_late
                  LEFT JOIN changed s ON s.state = k.state AND s.scope = 'site' AND s.name = r.site
                  LEFT JOIN changed m ON m.state = k.state AND m.scope = 'model' AND m.name = %4$s
                 GROUP BY k.state)
            SELECT $1, state, coalesce(c.n, 0), c.first, coalesce(late.n, 0) + coalesce(o.n, 0), k.lasts
              FROM known k FULL JOIN counted c USING (state) LEFT JOIN otherwise o USING (state)
              LEFT JOIN LATERAL (
                   SELECT count(*) AS n FROM %1$s r
                    WHERE r.ended_at IS NULL AND r.%2$I = k.state AND r.%3$I < k.late_before) late ON c.n > 0
        $q$, one.relation, one.layer, one.layer || '_entered_at', one.model)
        USING one.label, kinds, states, names, limits, farrier.now(), one.kind, scopes;
    END LOOP;
END $$;
