-- Returns the statements of files of rights ($1), in which the names of farrier's objects replace all functions and all
-- tables: functions named $2, those that PostgreSQL created with a range type, tables and views named $3, and the
-- migrator's table, which exists before any other.
WITH own AS (
    SELECT (SELECT string_agg(p.oid::regprocedure::text, ', ') FROM pg_proc p
             WHERE p.pronamespace = 'farrier'::regnamespace AND p.prokind = 'f'
               AND (p.proname = ANY ($2::text[])
                    OR EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid
                                  AND d.refclassid = 'pg_type'::regclass AND d.deptype = 'i'))) AS functions,
           (SELECT string_agg(c.oid::regclass::text, ', ') FROM pg_class c
             WHERE c.relnamespace = 'farrier'::regnamespace AND c.relkind IN ('r', 'v')
               AND c.relname = ANY ($3::text[] || 'migrator'::text)) AS tables
)
SELECT replace(replace(f.source, 'ALL FUNCTIONS IN SCHEMA farrier', 'FUNCTION ' || own.functions),
               'ALL TABLES IN SCHEMA farrier', 'TABLE ' || own.tables) AS statements
  FROM unnest($1::text[]) WITH ORDINALITY AS f (source, place), own
 ORDER BY f.place
