-- Returns the fingerprint of the spec from which a kind was last written, and whether its table exists; no row for a kind that is not
-- installed.
SELECT k.fingerprint, EXISTS (SELECT FROM pg_class c WHERE c.oid = k.relation) AS there FROM farrier.kinds k WHERE k.kind = $1
