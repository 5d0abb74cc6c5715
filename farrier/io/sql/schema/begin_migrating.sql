-- Makes this session the migrator, unless another live session is; then returns no row. A session that ended does not count. A login that may
-- not see when another one's session began takes its process id for it.
UPDATE farrier.migrator m
   SET pid = own.pid, login = own.usename, backend_start = own.backend_start
  FROM pg_stat_activity own
 WHERE own.pid = pg_backend_pid()
   AND NOT EXISTS (SELECT FROM pg_stat_activity a
                    WHERE a.pid = m.pid AND a.pid <> own.pid AND a.usename = m.login
                      AND (a.backend_start = m.backend_start OR a.backend_start IS NULL OR m.backend_start IS NULL))
RETURNING m.pid
