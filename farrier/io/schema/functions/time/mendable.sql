-- Returns the tables whose times mend corrects, in the order of place, each with the assignments (changes) that correct
-- a row, and the condition (wrong) of such a row; in both, $1 is now, $2 the length of the setback, $3 the transaction
-- that recorded it. Tables of kinds have kind set and come last, because a run also reads rows of other tables, which
-- must be mended before it is enqueued. Rows of tables of kinds also get a new version, because a run writes them as it
-- read them. Rows of other tables need no new version, because the statements that write them read the time
-- themselves. Left out are history, which
-- keeps the times that it was written with; wakes, on whose times no decision depends; records of the schema, which
-- hold the server's time; and JSON whose content other programs wrote.
CREATE OR REPLACE FUNCTION farrier.mendable(OUT place text, OUT relation regclass, OUT kind text, OUT changes text, OUT wrong text) RETURNS SETOF record
    LANGUAGE sql STABLE SET search_path = farrier, pg_temp AS $$
    WITH columns AS (
        SELECT c.oid, s.nspname || '.' || c.relname AS name, k.kind, a.attname, a.atttypid = 'jsonb'::regtype AS is_json,
               is_of_the_future(a.attname) AS of_the_future,
               -- A row that was written after the setback was recorded has correct future times.
               CASE WHEN k.kind IS NULL AND c.oid NOT IN (SELECT l.relation FROM kind_layers l WHERE l.relation IS NOT NULL)
                    THEN ' AND age(xmin) >= age($3)' ELSE '' END AS if_older
          FROM pg_class c JOIN pg_namespace s ON s.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid
               LEFT JOIN kinds k ON k.relation = c.oid
         WHERE c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
           AND a.atttypid IN ('timestamptz'::regtype, 'jsonb'::regtype)
           AND NOT (a.atttypid = 'jsonb'::regtype
                    AND a.attname IN ('labels', 'params', 'facts', 'health', 'options', 'result', 'value', 'detail', 'cursor'))
           AND (c.relnamespace = 'farrier'::regnamespace OR k.kind IS NOT NULL)
           AND c.oid <> ALL (ARRAY['history', 'wakes', 'migrator', 'schema_steps', 'schema_set', 'pulse', 'resources']::regclass[])
    ), each AS (
        SELECT x.oid, x.name, x.kind, x.attname,
               CASE WHEN x.is_json THEN format('mended(%I, $1, $2, %L)', x.attname, x.attname)
                    ELSE format('CASE WHEN %1$I > $1 AND isfinite(%1$I) THEN %2$s ELSE %1$I END', x.attname,
                                CASE WHEN x.of_the_future OR x.oid = 'bmc_logins'::regclass THEN format('%I - $2', x.attname) ELSE '$1' END) END AS becomes,
               CASE WHEN x.is_json THEN format('(%1$I::text LIKE ''%%-__-__T__:__:%%'' AND mended(%1$I, $1, $2, %2$L) <> %1$I%3$s)', x.attname, x.attname, x.if_older)
                    ELSE format('(%1$I > $1 AND isfinite(%1$I)%2$s)', x.attname, CASE WHEN x.of_the_future THEN x.if_older ELSE '' END) END AS wrong
          FROM columns x
    )
    SELECT CASE WHEN e.kind IS NULL THEN '1 ' ELSE '2 ' END || e.name, e.oid::regclass, e.kind,
           string_agg(format('%I = %s', e.attname, e.becomes), ', ' ORDER BY e.attname),
           string_agg(e.wrong, ' OR ' ORDER BY e.attname)
      FROM each e GROUP BY e.oid, e.name, e.kind
$$;
