-- Returns the session that migrates; nulls if no session does.
SELECT pid, login FROM farrier.migrator
