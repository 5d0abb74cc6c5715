-- Returns the functions, views and triggers in the database, each with a hash of its definition. Functions with the same name are
-- separate rows.
SELECT 'function' AS kind, p.proname::text AS name, md5(pg_get_functiondef(p.oid)) AS definition
  FROM pg_proc p
 WHERE p.pronamespace = 'farrier'::regnamespace AND p.prokind = 'f'
UNION ALL
SELECT 'view', c.relname, md5(pg_get_viewdef(c.oid) || coalesce(c.reloptions::text, ''))
  FROM pg_class c
 WHERE c.relnamespace = 'farrier'::regnamespace AND c.relkind = 'v'
UNION ALL
SELECT 'trigger', c.relname || '.' || t.tgname, md5(pg_get_triggerdef(t.oid) || t.tgenabled::text)
  FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
 WHERE c.relnamespace = 'farrier'::regnamespace AND NOT t.tgisinternal
