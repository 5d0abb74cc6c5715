-- One line for each function, view, trigger, table, column, constraint, index, right and comment of the schema.
SELECT format('function %s %s', p.oid::regprocedure, pg_get_functiondef(p.oid)) FROM pg_proc p
 WHERE p.pronamespace = 'farrier'::regnamespace
UNION ALL
SELECT format('view %s %s %s', c.relname, pg_get_viewdef(c.oid), c.reloptions) FROM pg_class c
 WHERE c.relnamespace = 'farrier'::regnamespace AND c.relkind = 'v'
UNION ALL
SELECT format('trigger %s %s %s', c.relname, pg_get_triggerdef(t.oid), t.tgenabled) FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
 WHERE c.relnamespace = 'farrier'::regnamespace AND NOT t.tgisinternal
UNION ALL
SELECT format('table %s %s %s %s', c.relname, c.relkind, c.relpersistence, c.reloptions) FROM pg_class c
 WHERE c.relnamespace = 'farrier'::regnamespace AND c.relkind IN ('r', 'S')
UNION ALL
SELECT format('column %s.%s %s%s %s %s %s %s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod),
              CASE WHEN a.attcollation <> t.typcollation THEN ' ' || a.attcollation::regcollation END,
              CASE WHEN a.attnotnull THEN 'not null' END, a.attidentity, a.attgenerated, pg_get_expr(d.adbin, d.adrelid))
  FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_type t ON t.oid = a.atttypid
  LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
 WHERE c.relnamespace = 'farrier'::regnamespace AND c.relkind IN ('r', 'v') AND a.attnum > 0 AND NOT a.attisdropped
UNION ALL
SELECT format('constraint %s %s %s', o.conrelid::regclass, o.conname, pg_get_constraintdef(o.oid)) FROM pg_constraint o
 WHERE o.connamespace = 'farrier'::regnamespace AND o.contype NOT IN ('n', 't')
UNION ALL
SELECT format('index %s', pg_get_indexdef(i.indexrelid)) FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
 WHERE c.relnamespace = 'farrier'::regnamespace
UNION ALL
SELECT format('right %s %s on function %s', a.grantee::regrole, a.privilege_type, p.oid::regprocedure)
  FROM pg_proc p CROSS JOIN LATERAL aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
 WHERE p.pronamespace = 'farrier'::regnamespace
UNION ALL
SELECT format('right %s %s on %s', a.grantee::regrole, a.privilege_type, c.relname)
  FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) a
 WHERE c.relnamespace = 'farrier'::regnamespace AND c.relkind IN ('r', 'v', 'S') AND a.grantee <> c.relowner
UNION ALL
SELECT format('right %s %s on %s.%s', a.grantee::regrole, a.privilege_type, c.relname, t.attname)
  FROM pg_class c JOIN pg_attribute t ON t.attrelid = c.oid CROSS JOIN LATERAL aclexplode(t.attacl) a
 WHERE c.relnamespace = 'farrier'::regnamespace
UNION ALL
SELECT format('comment on %s: %s', pg_describe_object(d.classoid, d.objoid, d.objsubid), d.description) FROM pg_description d
  JOIN LATERAL pg_identify_object(d.classoid, d.objoid, d.objsubid) o ON o.schema = 'farrier' OR o.identity LIKE '% on farrier.%'
