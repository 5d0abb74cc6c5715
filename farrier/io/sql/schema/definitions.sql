-- What the server has of the set's objects: each as it is identified in statements, with a hash of its definition. Of a name
-- that has several functions, each is a row.
SELECT 'function' AS kind, p.proname::text AS name, format('farrier.%I(%s)', p.proname, pg_get_function_identity_arguments(p.oid)) AS identity,
       md5(pg_get_functiondef(p.oid)) AS definition
  FROM pg_proc p
 WHERE p.pronamespace = 'farrier'::regnamespace AND p.prokind = 'f'
UNION ALL
SELECT 'view', c.relname, format('farrier.%I', c.relname), md5(pg_get_viewdef(c.oid))
  FROM pg_class c
 WHERE c.relnamespace = 'farrier'::regnamespace AND c.relkind = 'v'
UNION ALL
SELECT 'trigger', c.relname || '.' || t.tgname, format('%I ON farrier.%I', t.tgname, c.relname), md5(pg_get_triggerdef(t.oid) || t.tgenabled::text)
  FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
 WHERE c.relnamespace = 'farrier'::regnamespace AND NOT t.tgisinternal
