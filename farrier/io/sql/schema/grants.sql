-- Returns the rights that roles have on functions and views, as the statements that would grant them again. Omits the
-- rights of owners and of PUBLIC.
SELECT 'function' AS kind, p.proname::text AS name,
       format('GRANT %s ON FUNCTION farrier.%I TO %s%s', a.privilege_type, p.proname, a.grantee::regrole,
              CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END) AS statement
  FROM pg_proc p CROSS JOIN LATERAL aclexplode(p.proacl) a
 WHERE p.pronamespace = 'farrier'::regnamespace AND a.grantee NOT IN (0, p.proowner)
UNION ALL
SELECT 'view', c.relname::text,
       format('GRANT %s ON farrier.%I TO %s%s', a.privilege_type, c.relname, a.grantee::regrole,
              CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)
  FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) a
 WHERE c.relnamespace = 'farrier'::regnamespace AND c.relkind = 'v' AND a.grantee NOT IN (0, c.relowner)
UNION ALL
SELECT 'view', c.relname::text,
       format('GRANT %s (%I) ON farrier.%I TO %s%s', a.privilege_type, t.attname, c.relname, a.grantee::regrole,
              CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END)
  FROM pg_class c JOIN pg_attribute t ON t.attrelid = c.oid CROSS JOIN LATERAL aclexplode(t.attacl) a
 WHERE c.relnamespace = 'farrier'::regnamespace AND c.relkind = 'v' AND a.grantee NOT IN (0, c.relowner)
