-- Returns all controllers with their shards of each kind, expired ones first, the shards without an owner, and the doors.
WITH shares AS (
    SELECT s.owner, s.kind, count(*) AS n FROM farrier.shards s GROUP BY s.owner, s.kind)
SELECT json_build_object(
           'now', farrier.now(),
           'controllers', (
               SELECT coalesce(json_agg(json_build_object(
                          'id', c.id, 'name', c.name, 'release', c.release, 'started_at', c.started_at,
                          'renewed_at', c.renewed_at, 'expired', c.expired, 'leaving', c.leaving,
                          'shares', (
                              SELECT coalesce(json_agg(json_build_object('kind', kind, 'shards', coalesce(s.n, 0), 'lag', r.lag) ORDER BY kind), '[]')
                                FROM (SELECT * FROM unnest(c.kinds, c.lags) u (kind, lag)) r
                                FULL JOIN (SELECT kind, n FROM shares WHERE owner = c.id) s USING (kind)))
                          ORDER BY c.expired DESC, c.name COLLATE "C", c.started_at, c.id), '[]')
                 FROM farrier.controllers c),
           'doors', (
               SELECT coalesce(json_agg(json_build_object(
                          'id', d.id, 'kind', d.kind, 'name', d.name, 'release', d.release, 'started_at', d.started_at,
                          'renewed_at', d.renewed_at, 'reached_at', d.reached_at)
                          ORDER BY d.kind, d.name COLLATE "C", d.started_at, d.id), '[]')
                 FROM farrier.doors d),
           'dead_doors', (SELECT row_to_json(x) FROM farrier.dead_doors x ORDER BY x.pulse DESC LIMIT 1),
           'unowned', (
               SELECT coalesce(json_agg(json_build_object('kind', o.kind, 'shards', o.n) ORDER BY o.kind), '[]')
                 FROM (SELECT s.kind, sum(s.n)::bigint AS n FROM shares s
                        WHERE NOT EXISTS (SELECT FROM farrier.controllers c WHERE c.id = s.owner)
                        GROUP BY s.kind) o))::text
