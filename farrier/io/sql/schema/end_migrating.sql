-- Lets the next migrator in.
UPDATE farrier.migrator SET pid = NULL, login = NULL, backend_start = NULL WHERE pid = pg_backend_pid()
