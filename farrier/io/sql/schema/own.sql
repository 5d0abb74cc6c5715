-- The functions and the tables and views that are farrier's, as GRANT takes them: those with these names ($1, $2), what a range type
-- brings along, and the migrator's table, which is there before any other.
SELECT (SELECT 'FUNCTION ' || string_agg(p.oid::regprocedure::text, ', ') FROM pg_proc p
         WHERE p.pronamespace = 'farrier'::regnamespace AND p.prokind = 'f'
           AND (p.proname = ANY ($1::text[])
                OR EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid
                              AND d.refclassid = 'pg_type'::regclass AND d.deptype = 'i'))) AS "FUNCTIONS",
       (SELECT 'TABLE ' || string_agg(c.oid::regclass::text, ', ') FROM pg_class c
         WHERE c.relnamespace = 'farrier'::regnamespace AND c.relkind IN ('r', 'v') AND c.relname = ANY ($2::text[] || 'migrator'::text)) AS "TABLES"
