-- Whether this database was ever migrated.
SELECT to_regclass('farrier.schema_migrations') IS NOT NULL
