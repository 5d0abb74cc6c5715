-- Returns objects that have the name of an object of the set but do not belong to it, or have another type, as
-- PostgreSQL describes them. $1 are the kinds of the set's objects, $2 their names, $3 whether each is recorded.
WITH wanted AS (
    SELECT w.*, to_regnamespace('farrier') AS namespace
      FROM unnest($1::text[], $2::text[], $3::boolean[]) AS w (kind, name, recorded)
)
SELECT pg_describe_object('pg_proc'::regclass, p.oid, 0) AS description, w.kind || ' ' || w.name AS object
  FROM wanted w JOIN pg_proc p ON p.pronamespace = w.namespace AND p.proname = w.name
 WHERE w.kind = 'function' AND NOT (w.recorded AND p.prokind = 'f')
UNION ALL
SELECT pg_describe_object('pg_class'::regclass, c.oid, 0), w.kind || ' ' || w.name
  FROM wanted w JOIN pg_class c ON c.relnamespace = w.namespace AND c.relname = w.name
 WHERE w.kind = 'view' AND NOT (w.recorded AND c.relkind = 'v')
UNION ALL
SELECT pg_describe_object('pg_type'::regclass, t.oid, 0), w.kind || ' ' || w.name
  FROM wanted w JOIN pg_type t ON t.typnamespace = w.namespace AND t.typname = w.name
 WHERE w.kind = 'view' AND t.typrelid = 0 AND t.typcategory <> 'A'
UNION ALL
SELECT pg_describe_object('pg_trigger'::regclass, t.oid, 0), w.kind || ' ' || w.name
  FROM wanted w JOIN pg_class c ON c.relnamespace = w.namespace JOIN pg_trigger t ON t.tgrelid = c.oid
 WHERE w.kind = 'trigger' AND c.relname || '.' || t.tgname = w.name AND NOT w.recorded AND NOT t.tgisinternal
 ORDER BY 2, 1
