-- Makes this session the migrator; returns no row if another live session is the migrator. A session that has ended
-- does not count. A login without the right to read when another session began identifies that session by its process
-- ID.
UPDATE farrier.migrator m
   SET pid = own.pid, login = own.usename, backend_start = own.backend_start
  FROM pg_stat_activity own
 WHERE own.pid = pg_backend_pid()
   AND NOT EXISTS (SELECT FROM pg_stat_activity a
                    WHERE a.pid = m.pid AND a.pid <> own.pid AND a.usename = m.login
                      AND (a.backend_start = m.backend_start OR a.backend_start IS NULL OR m.backend_start IS NULL))
RETURNING m.pid
