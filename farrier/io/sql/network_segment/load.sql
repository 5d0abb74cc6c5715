-- Loads snapshots of segments with the number of allocated addresses, the owners of the first ten addresses, and the
-- prefixes that overlap prefixes to be added.
SELECT r.id, r.now,
       (r.snapshot || jsonb_build_object(
           'allocated', u.allocated, 'last_released_at', u.last_released_at,
           'users', CASE WHEN u.allocated = 0 THEN '[]' ELSE (
               SELECT coalesce(jsonb_agg(first.owner ORDER BY first.address), '[]')
                 FROM (SELECT a.owner, a.address FROM farrier.segment_addresses a WHERE a.segment = r.id
                        ORDER BY a.address LIMIT 10) first) END,
           'clashes', (
               SELECT coalesce(jsonb_object_agg(clash.request, clash.texts), '{}')
                 FROM (SELECT e ->> 'id' AS request,
                              jsonb_agg(format('%s overlaps %s of segment %s', given, p.prefix, s.name) ORDER BY given, s.name) AS texts
                         FROM jsonb_array_elements(r.snapshot -> 'requests') e
                        CROSS JOIN LATERAL jsonb_array_elements_text(coalesce(e #> '{params,add_prefixes}', '[]')) given
                         JOIN farrier.segment_prefixes p
                           ON p.site = r.snapshot ->> 'site' AND p.segment <> r.id
                          AND p.prefix && CASE WHEN farrier.prefix_fault(given) IS NULL THEN given::cidr END
                         JOIN farrier.network_segments s ON s.id = p.segment
                        GROUP BY 1) clash)))::text AS snapshot
  FROM farrier.load_resources('network_segment', $1::bigint[]) r
  JOIN farrier.segment_usage u ON u.segment = r.id
