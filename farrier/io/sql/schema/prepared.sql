-- Whether there is a place where it is recorded who migrates.
SELECT to_regclass('farrier.migrator') IS NOT NULL
