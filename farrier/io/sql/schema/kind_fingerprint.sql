-- By which spec a kind was last filled in, and whether its table is there; no row for one that was not made.
SELECT k.fingerprint, EXISTS (SELECT FROM pg_class c WHERE c.oid = k.relation) AS there FROM farrier.kinds k WHERE k.kind = $1
