-- Returns the objects that depend on a function or a view and would be dropped with it: objects of the set by kind and
-- name, all other objects (`kind` null) as PostgreSQL describes them. Includes objects that would be dropped silently,
-- such as a trigger or a rule on a view.
WITH dropped AS (
    SELECT 'pg_proc'::regclass AS class, p.oid AS id FROM pg_proc p
     WHERE $1 = 'function' AND p.pronamespace = 'farrier'::regnamespace
       AND format('farrier.%I(%s)', p.proname, pg_get_function_identity_arguments(p.oid)) = $2::text
    UNION ALL
    SELECT x.class, x.id FROM pg_class c
      JOIN pg_type t ON t.oid = c.reltype
     CROSS JOIN LATERAL (VALUES ('pg_class'::regclass, c.oid), ('pg_type'::regclass, t.oid), ('pg_type'::regclass, t.typarray)) x (class, id)
     WHERE $1 = 'view' AND c.relnamespace = 'farrier'::regnamespace AND format('farrier.%I', c.relname) = $2::text
), direct AS (
    SELECT DISTINCT d.classid, d.objid FROM pg_depend d JOIN dropped x ON d.refclassid = x.class AND d.refobjid = x.id
     WHERE d.deptype IN ('n', 'a')
), named AS (
    SELECT d.classid, d.objid, r.ev_class AS relation, p.oid AS function, t.oid AS trigger, t.tgrelid
      FROM direct d
      LEFT JOIN pg_rewrite r ON d.classid = 'pg_rewrite'::regclass AND r.oid = d.objid AND r.rulename = '_RETURN'
      LEFT JOIN pg_proc p ON d.classid = 'pg_proc'::regclass AND p.oid = d.objid
      LEFT JOIN pg_trigger t ON d.classid = 'pg_trigger'::regclass AND t.oid = d.objid
)
SELECT DISTINCT CASE WHEN vc.relnamespace = 'farrier'::regnamespace AND vc.relkind = 'v' THEN 'view'
                     WHEN p.pronamespace = 'farrier'::regnamespace THEN 'function'
                     WHEN tc.relnamespace = 'farrier'::regnamespace THEN 'trigger' END AS kind,
       coalesce(vc.relname::text, p.proname::text, tc.relname || '.' || t.tgname) AS name,
       CASE WHEN n.relation IS NULL THEN pg_describe_object(n.classid, n.objid, 0)
            ELSE pg_describe_object('pg_class'::regclass, n.relation, 0) END AS description
  FROM named n
  LEFT JOIN pg_class vc ON vc.oid = n.relation
  LEFT JOIN pg_proc p ON p.oid = n.function
  LEFT JOIN pg_trigger t ON t.oid = n.trigger
  LEFT JOIN pg_class tc ON tc.oid = n.tgrelid
 WHERE NOT EXISTS (SELECT FROM dropped x WHERE x.id = n.relation)
 ORDER BY 3
