-- Returns the triggers that make_kind created, as PostgreSQL describes them, and the statements that drop them. Such a
-- trigger calls a function of its own name, or enter_state, and its first argument is the kind.
SELECT pg_describe_object('pg_trigger'::regclass, t.oid, 0) AS description, format('DROP TRIGGER %I ON %s', t.tgname, k.relation) AS drop
  FROM farrier.kinds k JOIN pg_class c ON c.oid = k.relation JOIN pg_trigger t ON t.tgrelid = c.oid
  JOIN pg_proc p ON p.oid = t.tgfoid AND p.pronamespace = 'farrier'::regnamespace AND (p.proname = t.tgname OR p.proname = 'enter_state')
 WHERE NOT t.tgisinternal AND position(convert_to(k.kind, 'UTF8') || '\x00' IN t.tgargs) = 1
   AND NOT EXISTS (SELECT FROM farrier.schema_objects o WHERE o.kind = 'trigger' AND o.name = c.relname || '.' || t.tgname)
