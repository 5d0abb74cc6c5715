-- Returns the table of an installed kind, null if the table was dropped; no row for a kind that is not installed.
SELECT (SELECT c.oid::regclass::text FROM pg_class c WHERE c.oid = k.relation) AS relation FROM farrier.kinds k WHERE k.kind = $1
