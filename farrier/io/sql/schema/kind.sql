-- Returns the table of an installed kind, null if the table was dropped, and the fingerprint of the spec from which the kind was last
-- written; no row for a kind that is not installed.
SELECT (SELECT s.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace s ON s.oid = c.relnamespace WHERE c.oid = k.relation) AS relation,
       k.fingerprint
  FROM farrier.kinds k WHERE k.kind = $1
