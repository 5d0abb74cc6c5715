-- Returns the versions of the tables that were applied to this database.
SELECT version, name, checksum FROM farrier.schema_steps ORDER BY version
