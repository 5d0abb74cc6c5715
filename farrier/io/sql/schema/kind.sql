-- The table that a kind was made with, null if that was dropped; no row for a kind that was not made.
SELECT (SELECT c.oid::regclass::text FROM pg_class c WHERE c.oid = k.relation) AS relation FROM farrier.kinds k WHERE k.kind = $1
