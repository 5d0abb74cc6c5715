-- The versions of the tables that this database went through.
SELECT version, name, checksum FROM farrier.schema_steps ORDER BY version
