-- What was applied to this database, oldest first.
SELECT version, name, checksum FROM farrier.schema_migrations ORDER BY version
