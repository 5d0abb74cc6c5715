-- Loads snapshots of resources with the wakes and the keys of the stored outcomes that are visible with them, in one statement and so
-- from one database snapshot. The kind's statement replaces `of_kind`; $1 are ids, $2 is the kind. `at` is the time of
-- the snapshot, of the oldest wake, or of the stored outcome.
SELECT l.id, l.now AS at, l.snapshot::text, NULL::uuid[] AS wakes, NULL::integer AS key FROM (of_kind) l
UNION ALL
SELECT w.resource, min(w.at), NULL, array_agg(w.id), NULL
  FROM (SELECT each.resource, each.id, each.at
          FROM unnest($1::bigint[]) r (id)
         CROSS JOIN LATERAL (SELECT w.resource, w.id, w.at FROM farrier.wakes w WHERE w.kind = $2 AND w.resource = r.id OFFSET 0) each
         LIMIT 20000) w
 GROUP BY w.resource
UNION ALL
SELECT o.id, o.at, NULL, NULL, o.key FROM farrier.outcomes o WHERE o.kind = $2 AND o.id = ANY ($1::bigint[]) AND o.key IS NOT NULL
