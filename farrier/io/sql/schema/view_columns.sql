-- Returns the columns of a view of farrier in their order, each with its type; no row for a view that does not exist.
SELECT a.attname::text AS name, a.atttypid AS type
  FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
 WHERE c.relnamespace = 'farrier'::regnamespace AND c.relkind = 'v' AND c.relname = $1::text AND a.attnum > 0
 ORDER BY a.attnum
