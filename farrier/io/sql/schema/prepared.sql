-- Returns whether the table that records the migrator exists.
SELECT to_regclass('farrier.migrator') IS NOT NULL
