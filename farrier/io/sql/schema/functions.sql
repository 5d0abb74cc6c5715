-- Returns each function in schema farrier whose name is in schema_objects. as_recorded: it has the recorded parameters
-- and result. by_hand: it does not, and another function has the same name, so an operator created this one.
SELECT f.name, f.identity, f.description, f.as_recorded, NOT f.as_recorded AND f.of_this_name > 1 AS by_hand
  FROM (SELECT o.name, format('farrier.%I(%s)', p.proname, pg_get_function_identity_arguments(p.oid)) AS identity,
               pg_describe_object('pg_proc'::regclass, p.oid, 0) AS description,
               o.signature IS NOT DISTINCT FROM format('(%s) RETURNS %s', pg_get_function_arguments(p.oid), pg_get_function_result(p.oid)) AS as_recorded,
               count(*) OVER (PARTITION BY o.name) AS of_this_name
          FROM farrier.schema_objects o JOIN pg_proc p ON p.pronamespace = 'farrier'::regnamespace AND p.proname = o.name
         WHERE o.kind = 'function' AND p.prokind = 'f') f
 ORDER BY 3
