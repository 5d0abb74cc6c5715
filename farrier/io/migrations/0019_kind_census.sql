-- What people and machines see of resources of every registered kind: counts, what is late, lines to show. Each function goes
-- by farrier.kinds and farrier.kind_states, so a kind has nothing more to do than to be registered. They read the tables of
-- kinds as their owner does, because a reader has no rights on tables that somebody else's package made.

-- Every state that is not the end of a resource, and how many are in it, since when the first of them, how many are above
-- their own limit, and the limit of those that have none of their own. The arrays are limits that differ from the kind's:
-- (kind, state, site, lasts), site null for all. What is late by the limit of all is counted in the index alone; of those
-- that entered between the shortest and the longest limit of their state, sites that have one of their own are looked at.
CREATE FUNCTION farrier.count_resources(kinds text[], states text[], sites text[], limits interval[])
    RETURNS TABLE (kind text, state text, n bigint, first timestamptz, above bigint, lasts interval)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    one record;
BEGIN
    FOR one IN SELECT k.kind, k.relation FROM kinds k JOIN pg_class c ON c.oid = k.relation ORDER BY k.kind LOOP
        RETURN QUERY EXECUTE format($q$
            WITH changed AS MATERIALIZED (
                SELECT c.* FROM unnest($2, $3, $4, $5) AS c (kind, state, site, lasts) WHERE c.kind = $1),
            known AS MATERIALIZED (
                SELECT s.state, own.lasts, $6 - own.lasts AS late_before,
                       $6 - CASE WHEN o.least IS NOT NULL THEN least(own.lasts, o.least) END AS first_late,
                       coalesce($6 - greatest(own.lasts, o.most), '-infinity') AS all_late
                  FROM farrier.kind_states s
                 CROSS JOIN LATERAL (
                       SELECT coalesce((SELECT c.lasts FROM changed c WHERE c.state = s.state AND c.site IS NULL), s.sla) AS lasts) own
                 CROSS JOIN LATERAL (
                       SELECT min(c.lasts) AS least, CASE WHEN own.lasts IS NOT NULL THEN max(c.lasts) END AS most
                         FROM changed c WHERE c.state = s.state AND c.site IS NOT NULL) o
                 WHERE s.kind = $1 AND NOT s.terminal),
            counted AS MATERIALIZED (
                SELECT r.state, count(*) AS n, min(r.state_entered_at) AS first FROM %1$s r WHERE r.ended_at IS NULL GROUP BY r.state),
            otherwise AS MATERIALIZED (
                SELECT k.state, count(*) FILTER (WHERE r.state_entered_at < $6 - o.lasts)
                                - count(*) FILTER (WHERE o.lasts IS NOT NULL AND r.state_entered_at < k.late_before) AS n
                  FROM known k
                  JOIN %1$s r ON r.state = k.state AND r.ended_at IS NULL
                   AND r.state_entered_at >= k.all_late AND r.state_entered_at < k.first_late
                  LEFT JOIN changed o ON o.state = k.state AND o.site = r.site
                 GROUP BY k.state)
            SELECT $1, state, coalesce(c.n, 0), c.first, coalesce(late.n, 0) + coalesce(o.n, 0), k.lasts
              FROM known k FULL JOIN counted c USING (state) LEFT JOIN otherwise o USING (state)
              LEFT JOIN LATERAL (
                   SELECT count(*) AS n FROM %1$s r
                    WHERE r.ended_at IS NULL AND r.state = k.state AND r.state_entered_at < k.late_before) late ON c.n > 0
        $q$, one.relation) USING one.kind, kinds, states, sites, limits, farrier.now();
    END LOOP;
END $$;

-- Resources above the limit that holds for themselves, of each kind the `most` that are above it the furthest. Arguments as above.
CREATE FUNCTION farrier.late_resources(kinds text[], states text[], sites text[], limits interval[], most integer)
    RETURNS TABLE (kind text, id bigint, name text, site text, state text, since timestamptz, lasts interval, last_error text)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    one record;
BEGIN
    FOR one IN SELECT k.kind, k.relation FROM kinds k JOIN pg_class c ON c.oid = k.relation ORDER BY k.kind LOOP
        RETURN QUERY EXECUTE format($q$
            WITH changed AS MATERIALIZED (
                SELECT c.* FROM unnest($2, $3, $4, $5) AS c (kind, state, site, lasts) WHERE c.kind = $1),
            known AS MATERIALIZED (
                SELECT s.state, coalesce((SELECT c.lasts FROM changed c WHERE c.state = s.state AND c.site IS NULL), s.sla) AS lasts,
                       (SELECT min(c.lasts) FROM changed c WHERE c.state = s.state AND c.site IS NOT NULL) AS of_a_site
                  FROM farrier.kind_states s WHERE s.kind = $1 AND NOT s.terminal)
            SELECT $1, r.id, r.name, r.site, r.state, r.state_entered_at, coalesce(o.lasts, k.lasts), r.last_error
              FROM known k
              JOIN %1$s r ON r.state = k.state AND r.ended_at IS NULL
               AND r.state_entered_at < $7 - least(k.lasts, k.of_a_site)
              LEFT JOIN changed o ON o.state = k.state AND o.site = r.site
             WHERE r.state_entered_at < $7 - coalesce(o.lasts, k.lasts)
             ORDER BY r.state_entered_at + coalesce(o.lasts, k.lasts), r.id
             LIMIT $6
        $q$, one.relation) USING one.kind, kinds, states, sites, limits, most, farrier.now();
    END LOOP;
END $$;

-- The id of a resource by its id, or by the name it has now, or by the name that only ended ones had; null if none ever had it.
CREATE FUNCTION farrier.any_resource(kind text, given text) RETURNS bigint
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

-- The name of a resource, an ended one included; null where there is no such kind, table or resource.
CREATE FUNCTION farrier.resource_name(kind text, id bigint) RETURNS text
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    found_relation regclass;
    found_name text;
BEGIN
    SELECT k.relation INTO found_relation FROM kinds k JOIN pg_class c ON c.oid = k.relation WHERE k.kind = resource_name.kind;
    IF found_relation IS NOT NULL THEN
        EXECUTE format('SELECT r.name FROM %s r WHERE r.id = $1', found_relation) INTO found_name USING id;
    END IF;
    RETURN found_name;
END $$;

-- Resources of a kind as they are shown, by name, behind a key: `most` lines, each with what the kind's own columns say in
-- `detail`, and whatever a function KIND_detail(bigint) RETURNS jsonb beside the table adds, if there is one. `one_id` is the
-- only one wanted, or null; empty arrays take any, and a state is meant with its substates; `ended` shows those that have
-- ended, too.
CREATE FUNCTION farrier.show_resources(
    kind text, one_id bigint, states text[], sites text[], ended boolean, after_name text, after_id bigint, most integer)
    RETURNS SETOF jsonb
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = farrier, pg_temp AS $$
DECLARE
    relation regclass := relation_of(kind);
BEGIN
    RETURN QUERY EXECUTE format($q$
        SELECT jsonb_build_object(
                   'kind', $1, 'id', r.id, 'name', r.name, 'site', r.site, 'version', r.version, 'state', r.state,
                   'state_entered_at', r.state_entered_at, 'created_at', r.created_at, 'ended_at', r.ended_at,
                   'last_error', r.last_error, 'default_limit', extract(epoch FROM s.sla), 'why_none', coalesce(s.why_none, ''),
                   'detail', %2$s,
                   'outcome', o.outcome, 'outcome_at', o.at, 'next_run_at', c.due_at, 'running', c.claim_token IS NOT NULL)
          FROM (SELECT * FROM %1$s r
                 WHERE ($2 IS NULL OR r.id = $2) AND ($5 OR r.ended_at IS NULL)
                   AND (cardinality($3) = 0 OR r.state = ANY ($3) OR split_part(r.state, '/', 1) = ANY ($3))
                   AND (cardinality($4) = 0 OR r.site = ANY ($4))
                   AND (r.name, r.id) > ($6, $7)
                 ORDER BY r.name, r.id LIMIT $8) r
          LEFT JOIN farrier.kind_states s ON s.kind = $1 AND s.state = r.state
          LEFT JOIN farrier.outcomes o ON o.kind = $1 AND o.id = r.id
          LEFT JOIN farrier.schedule c ON c.kind = $1 AND c.id = r.id
         ORDER BY r.name, r.id
    $q$, relation, detail_of(kind, relation)) USING kind, one_id, states, sites, ended, after_name, after_id, most;
END $$;

SELECT farrier.let_call(role_name, function)
  FROM unnest(ARRAY['farrier_intents', 'farrier_reader']) role_name,
       unnest(ARRAY['farrier.count_resources(text[],text[],text[],interval[])',
                    'farrier.late_resources(text[],text[],text[],interval[],integer)',
                    'farrier.any_resource(text,text)', 'farrier.resource_name(text,bigint)',
                    'farrier.show_resources(text,bigint,text[],text[],boolean,text,bigint,integer)']) function;
