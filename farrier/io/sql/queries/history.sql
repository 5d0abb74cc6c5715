-- Returns one page of history: examines the next $14 changes after a key, and returns at most $15 that match. The first
-- four subqueries are the orders of reading, of which $1 names one; the others are never run. The bounded number of
-- examined changes bounds the cost of a page, even if few match. $23 is the time before which no further change can
-- become visible: the orders that begin with the oldest change end there. A key and a bound on the same side are one
-- condition: with two conditions, an index scan may begin at the wrong one.
WITH looked AS MATERIALIZED (
    SELECT *, row_number() OVER () AS place
      FROM (SELECT h.* FROM farrier.history h
             WHERE $1::text = 'newest'
               AND (h.at, h.id, h.version, h.kind, h.layer)
                 < (coalesce($2::timestamptz, $12::timestamptz, farrier.now() - $13::interval, 'infinity'),
                    coalesce($3::bigint, -1), coalesce($4::bigint, -1), coalesce($5::text, ''), coalesce($6::text, ''))
               AND h.at >= coalesce($10::timestamptz, farrier.now() - $11::interval, '-infinity')
             ORDER BY h.at DESC, h.id DESC, h.version DESC, h.kind DESC, h.layer DESC LIMIT $14) walked
    UNION ALL
    SELECT *, row_number() OVER ()
      FROM (SELECT h.* FROM farrier.history h
             WHERE $1 = 'oldest'
               AND (h.at, h.id, h.version, h.kind, h.layer)
                 > (coalesce($2, $10, farrier.now() - $11, '-infinity'),
                    coalesce($3, -1), coalesce($4, -1), coalesce($5, ''), coalesce($6, ''))
               AND h.at < least(coalesce($12, farrier.now() - $13, 'infinity'), $23::timestamptz)
             ORDER BY h.at, h.id, h.version, h.kind, h.layer LIMIT $14) walked
    UNION ALL
    SELECT *, row_number() OVER ()
      FROM (SELECT h.* FROM farrier.history h
             WHERE $1 = 'newest of one' AND h.kind = $7::text AND h.id = $8::bigint
               AND (h.version, h.layer) < (coalesce($4, 9223372036854775807), coalesce($6, ''))
             ORDER BY h.version DESC, h.layer DESC LIMIT $14) walked
    UNION ALL
    SELECT *, row_number() OVER ()
      FROM (SELECT h.* FROM farrier.history h
             WHERE $1 = 'oldest of one' AND h.kind = $7 AND h.id = $8
               -- The key may be that of another resource: it may come from a feed of all resources, or from the
               -- beginning of a stream.
               AND (h.version, h.layer) > (CASE WHEN ($3, $5) = ($8, $7) THEN $4 ELSE -1 END, CASE WHEN ($3, $5) = ($8, $7) THEN $6 ELSE '' END)
               AND ($2 IS NULL OR ($3, $5) = ($8, $7) OR (h.at, h.id, h.version, h.kind, h.layer) > ($2, $3, $4, $5, $6))
               AND h.at < $23
             ORDER BY h.version, h.layer LIMIT $14) walked
), found AS MATERIALIZED (
    SELECT l.*
      FROM looked l
     WHERE l.at >= coalesce($10, farrier.now() - $11, '-infinity')
       AND l.at < coalesce($12, farrier.now() - $13, 'infinity')
       AND (cardinality($9::text[]) = 0 OR l.kind = ANY ($9))
       AND (cardinality($16::text[]) = 0 OR l.layer = ANY ($16))
       AND (cardinality($17::text[]) = 0 OR l.from_value = ANY ($17))
       AND (cardinality($18::text[]) = 0 OR l.to_value = ANY ($18))
       AND (cardinality($19::text[]) = 0 OR EXISTS (
                SELECT FROM unnest($19) c
                 WHERE l.cause = c OR starts_with(l.cause, c || ':') OR starts_with(l.cause, c || ' ')))
       AND ($20::text = '' OR strpos(lower(l.reason), lower($20)) > 0)
       AND ($21::interval IS NULL OR l.seconds_in_source >= extract(epoch FROM $21))
       AND (cardinality($22::text[]) = 0 OR l.requested_by = ANY ($22))
     ORDER BY l.place
     LIMIT $15
), named AS MATERIALIZED (
    SELECT k.kind, r.id, r.name
      FROM (SELECT f.kind, array_agg(DISTINCT f.id) AS ids FROM found f GROUP BY f.kind) k
     CROSS JOIN LATERAL farrier.resource_names(k.kind, k.ids) r
)
SELECT json_build_object(
    'changes', coalesce((
        SELECT json_agg(json_build_object(
                   'kind', f.kind, 'id', f.id, 'version', f.version, 'layer', f.layer,
                   'name', coalesce(n.name, f.id::text),
                   'from', f.from_value, 'to', f.to_value, 'at', f.at, 'seconds_in_source', f.seconds_in_source,
                   'cause', f.cause, 'requested_by', f.requested_by, 'reason', f.reason, 'source', f.source,
                   'controller', f.controller) ORDER BY f.place)
          FROM found f LEFT JOIN named n ON n.kind = f.kind AND n.id = f.id), '[]'),
    'looked', (SELECT count(*) FROM looked),
    'last', (SELECT json_build_object('at', l.at, 'id', l.id, 'version', l.version, 'kind', l.kind, 'layer', l.layer)
               FROM looked l ORDER BY l.place DESC LIMIT 1))::text
