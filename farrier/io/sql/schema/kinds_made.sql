-- Returns the kinds whose tables exist.
SELECT k.kind, k.relation::text AS relation FROM farrier.kinds k JOIN pg_class c ON c.oid = k.relation WHERE k.from_template ORDER BY k.kind
