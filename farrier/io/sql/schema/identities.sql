-- Returns how statements identify the objects of a kind that have this name, and the ctid of their rows; functions with
-- different parameters are separate rows.
SELECT format('farrier.%I(%s)', p.proname, pg_get_function_identity_arguments(p.oid)) AS identity, p.ctid::text AS place
  FROM pg_proc p
 WHERE $1 = 'function' AND p.pronamespace = 'farrier'::regnamespace AND p.proname = $2::text AND p.prokind = 'f'
UNION ALL
SELECT format('farrier.%I', c.relname), c.ctid::text
  FROM pg_class c
 WHERE $1 = 'view' AND c.relnamespace = 'farrier'::regnamespace AND c.relname = $2::text AND c.relkind = 'v'
UNION ALL
SELECT format('%I ON farrier.%I', t.tgname, c.relname), t.ctid::text
  FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
 WHERE $1 = 'trigger' AND c.relnamespace = 'farrier'::regnamespace AND c.relname || '.' || t.tgname = $2::text AND NOT t.tgisinternal
