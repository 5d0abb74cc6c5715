-- Deletes wakes whose runs had nothing to write. Nobody waits for the disk: a wake that comes back after a crash is one more run.
DELETE FROM farrier.wakes w USING unnest($2::bigint[], $3::uuid[]) r (resource, id)
 WHERE w.kind = $1 AND w.resource = r.resource AND w.id = r.id
   AND set_config('synchronous_commit', 'off', true) IS NOT NULL
