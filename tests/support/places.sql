-- The position (ctid) of each catalog row that applying the schema has written.
SELECT p.oid::regprocedure::text, p.ctid::text FROM pg_proc p WHERE p.pronamespace = 'farrier'::regnamespace
UNION ALL
SELECT c.relname, c.ctid::text FROM pg_class c WHERE c.relnamespace = 'farrier'::regnamespace
UNION ALL
SELECT 'rule of ' || r.ev_class::regclass::text, r.ctid::text
  FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class WHERE c.relnamespace = 'farrier'::regnamespace
UNION ALL
SELECT 'trigger ' || t.tgname, t.ctid::text
  FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid WHERE c.relnamespace = 'farrier'::regnamespace
UNION ALL
SELECT 'record of ' || o.name, o.ctid::text FROM farrier.schema_objects o
UNION ALL
SELECT 'the set', s.ctid::text FROM farrier.schema_set s
