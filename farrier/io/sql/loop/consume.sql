-- Deletes wakes whose runs had nothing to write. The COMMIT does not wait for the disk: a wake that reappears after a crash costs one
-- more run. Finds each wake by its key: a join planned while the table was empty would read all wakes of the kind, in every call.
DELETE FROM farrier.wakes w
 WHERE w.ctid = ANY (ARRAY(
           SELECT found.ctid
             FROM unnest($2::bigint[], $3::uuid[]) r (resource, id)
            CROSS JOIN LATERAL (
                  SELECT x.ctid FROM farrier.wakes x WHERE x.kind = $1 AND x.resource = r.resource AND x.id = r.id OFFSET 0) found))
   AND set_config('synchronous_commit', 'off', true) IS NOT NULL
