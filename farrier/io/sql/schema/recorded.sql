-- Returns whether the database has records of a schema.
SELECT to_regclass('farrier.schema_set') IS NOT NULL
