-- Returns each object of the database that has the name of an object of the set, but that farrier did not record or
-- that has another type: PostgreSQL's description of it, and the object of the set. For the objects of the set, $1 are
-- the kinds, $2 the names, and $3 whether farrier recorded each.
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
