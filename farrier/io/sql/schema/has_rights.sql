-- Whether the schema is migrated far enough to grant rights.
SELECT to_regprocedure('farrier.grant_rights()') IS NOT NULL
