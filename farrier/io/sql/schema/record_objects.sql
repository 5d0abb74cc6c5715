-- Records the objects of the set. By now, no two functions have the same name.
INSERT INTO farrier.schema_objects (kind, name, source, definition, signature)
SELECT o.*, (SELECT format('(%s) RETURNS %s', pg_get_function_arguments(p.oid), pg_get_function_result(p.oid)) FROM pg_proc p
              WHERE o.kind = 'function' AND p.pronamespace = 'farrier'::regnamespace AND p.proname = o.name AND p.prokind = 'f')
  FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS o (kind, name, source, definition)
