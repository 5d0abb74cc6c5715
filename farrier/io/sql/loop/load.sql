-- Loads snapshots of resources with the wakes and the keys of the stored outcomes that are visible with them, in one statement and so
-- from one database snapshot. The kind's statement replaces `of_kind`; $1 are ids, $2 is the kind; reads at most $3
-- wakes. `at` is the time of the snapshot, of the oldest wake, of the stored outcome, or of the beginning of a hold after a restore.
SELECT l.id, l.now AS at, l.snapshot::text, NULL::uuid[] AS wakes, NULL::integer AS key, NULL::text AS hold FROM (of_kind) l
UNION ALL
SELECT w.resource, min(w.at), NULL, array_agg(w.id), NULL, NULL
  FROM (SELECT each.resource, each.id, each.at
          FROM unnest($1::bigint[]) r (id)
         CROSS JOIN LATERAL (SELECT w.resource, w.id, w.at FROM farrier.wakes w WHERE w.kind = $2 AND w.resource = r.id OFFSET 0) each
         LIMIT $3) w
 GROUP BY w.resource
UNION ALL
SELECT o.id, o.at, NULL, NULL, o.key, NULL FROM farrier.outcomes o WHERE o.kind = $2 AND o.id = ANY ($1::bigint[]) AND o.key IS NOT NULL
UNION ALL
SELECT h.id, h.since, NULL, NULL, NULL, json_build_object('since', h.since, 'power', h.power, 'choice', h.choice)::text
  FROM farrier.restore_holds h WHERE h.kind = $2 AND h.id = ANY ($1::bigint[]) AND h.lifted_at IS NULL
