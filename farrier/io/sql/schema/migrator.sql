-- The session that migrates.
SELECT pid, login FROM farrier.migrator
