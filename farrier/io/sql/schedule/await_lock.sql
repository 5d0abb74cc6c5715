-- Waits for the lock of rows that somebody holds, no longer than lock_timeout.
SELECT FROM farrier.schedule WHERE kind = $1 AND id = ANY ($2::bigint[]) ORDER BY id FOR NO KEY UPDATE
