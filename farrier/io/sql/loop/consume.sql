-- Deletes wakes whose runs had nothing to write. No commit waits for the disk here: a wake that comes back after a crash is one more run.
-- Each is found by its key: a join planned while the table was empty would read all wakes of the kind, in every call.
DELETE FROM farrier.wakes w
 WHERE w.ctid = ANY (ARRAY(
           SELECT found.ctid
             FROM unnest($2::bigint[], $3::uuid[]) r (resource, id)
            CROSS JOIN LATERAL (
                  SELECT x.ctid FROM farrier.wakes x WHERE x.kind = $1 AND x.resource = r.resource AND x.id = r.id OFFSET 0) found))
   AND set_config('synchronous_commit', 'off', true) IS NOT NULL
