-- Ends this session's migration, so that another session can migrate.
UPDATE farrier.migrator SET pid = NULL, login = NULL, backend_start = NULL WHERE pid = pg_backend_pid()
