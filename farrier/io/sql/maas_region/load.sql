-- Loads snapshots of regions, with the machines that are due to be read. Each reason finds its machines by an index: 1 a workflow
-- changes the machine and an event named it, 2 a workflow changes it, 3 an event named it, 4 it contradicts its node, 5 it was never
-- read, 6 the sweep reads it. A run reads at most 150 machines: 100 for the first three reasons, 25 for the next two and 25 for the
-- sweep. Capacity that one share does not use goes to the other shares, so no reason delays another. Within a reason,
-- the machine with the oldest reading comes first; machines that have waited too long come before all others. The sweep
-- reads machines in equal parts, one for each request, spread over `sweep_every`; after an outage, it does not catch up
-- at once. A machine with repeated events is read every few seconds.
SELECT r.id, h.now,
       ((SELECT l.snapshot FROM farrier.load_resources('maas_region', ARRAY[r.id]) l) || jsonb_build_object(
           'due', d.due, 'more', d.many >= 150, 'present', c.present, 'lost', c.lost,
           'turn_at', CASE WHEN d.swept >= d.sweepable THEN sweep.turn_at
                           WHEN d.swept > 0 THEN greatest(t.from_at, h.now - 2 * r.sweep_every / t.turns) + r.sweep_every * (d.swept / c.machines::double precision) END,
           'known', (SELECT coalesce(jsonb_agg(x.system_id), '[]') FROM (
               SELECT o.system_id FROM farrier.node_observations o
                WHERE o.site = r.site AND o.state <> 'absent' ORDER BY o.read_at LIMIT 5) x),
           -- Only a run that reads the user of the key needs these machines.
           'held', CASE WHEN r.identified_at IS NULL OR r.identified_at <= h.now - r.sweep_every THEN (
               SELECT coalesce(jsonb_agg(x.system_id), '[]') FROM (
                   SELECT o.system_id FROM farrier.node_observations o
                    WHERE o.site = r.site AND o.detail ->> 'owner' = r.username LIMIT 50) x) ELSE '[]' END,
           'users', CASE WHEN r.state = 'unconfigured' THEN (
               SELECT coalesce(jsonb_agg(x.name), '[]') FROM (
                   SELECT n.name FROM farrier.node_observations o JOIN farrier.nodes n ON n.id = o.node_id
                    WHERE o.site = r.site AND n.status <> 'deleted' ORDER BY n.name LIMIT 5) x) ELSE '[]' END))::text AS snapshot
  FROM farrier.maas_regions r
 CROSS JOIN LATERAL (SELECT farrier.now() AS now, (SELECT (farrier.read_constants()).confirmed_after) AS confirmed_after) h
 CROSS JOIN LATERAL (SELECT count(*) AS machines, count(*) FILTER (WHERE o.state <> 'absent') AS present,
                            count(*) FILTER (WHERE o.lost_at > h.now - interval '1 hour') AS lost
                       FROM farrier.node_observations o WHERE o.site = r.site) c
 CROSS JOIN LATERAL (SELECT greatest(1, ceil(c.machines / 50.0)) AS turns, coalesce(r.swept_at, r.created_at) AS from_at) t
 CROSS JOIN LATERAL (SELECT floor(extract(epoch FROM h.now - t.from_at) * t.turns / extract(epoch FROM r.sweep_every)) AS earned) e
 CROSS JOIN LATERAL (SELECT (greatest(0, least(2, e.earned)) * ceil(c.machines / t.turns))::integer AS size,
                            t.from_at + r.sweep_every / t.turns::double precision AS earned_at,
                            CASE WHEN e.earned BETWEEN 1 AND 2 THEN t.from_at + r.sweep_every * (e.earned / t.turns)::double precision
                                 WHEN e.earned > 2 THEN h.now END AS turn_at) sweep
 CROSS JOIN LATERAL (
       SELECT count(*) AS many, count(*) FILTER (WHERE x.swept) AS swept, coalesce(max(x.sweepable), 0) AS sweepable,
              coalesce(jsonb_agg(jsonb_build_object(
                  'node', x.node_id, 'system_id', x.system_id, 'urgent', x.rank <= 1,
                  'present', coalesce(o.state <> 'absent', false) AND n.live_workflow_kind IS DISTINCT FROM 'decommission'
              ) ORDER BY x.rank, x.read_at NULLS FIRST, x.node_id), '[]') AS due
         FROM (
           SELECT y.*
             FROM (
               SELECT g.*, row_number() OVER (PARTITION BY g.share ORDER BY g.rank, g.read_at NULLS FIRST, g.node_id) AS place,
                      count(*) FILTER (WHERE g.swept) OVER () AS sweepable
                 FROM (
                   SELECT u.node_id, u.system_id, min(u.read_at) AS read_at, bool_or(u.reason = 6) AS swept,
                          CASE WHEN min(u.reason) <= 3 THEN 100 ELSE 25 END AS room,
                          CASE WHEN min(u.reason) <= 3 THEN 1 WHEN min(u.reason) <= 5 THEN 2 ELSE 3 END AS share,
                          CASE WHEN min(u.waits_since) <= h.now - r.motion_every / 2 THEN 0 ELSE min(u.reason) END AS rank
                     FROM (
                       (SELECT v.node_id, v.system_id, v.read_at, v.reason, v.waits_since
                          FROM (
                            SELECT w.*, row_number() OVER (PARTITION BY w.reason ORDER BY w.read_at NULLS FIRST) AS place
                              FROM (
                                SELECT o.node_id, o.system_id, o.read_at, CASE WHEN o.stale_since IS NULL THEN 2 ELSE 1 END AS reason,
                                       -- Each event updates stale_since, so stale_since alone would stay recent while
                                       -- events continue.
                                       least(o.stale_since, CASE WHEN o.read_at <= m.began_at THEN m.began_at ELSE o.read_at + r.motion_every END) AS waits_since
                                  FROM farrier.maas_motion m
                                  JOIN farrier.node_observations o ON o.node_id = m.node_id AND o.system_id = m.system_id
                                 WHERE m.site = r.site
                                   AND (o.read_at IS NULL OR o.read_at <= m.began_at OR o.read_at <= h.now - r.motion_every
                                        OR o.stale_since IS NOT NULL AND o.read_at <= h.now - r.motion_every / 10)
                                   AND coalesce((r.unreadable ->> o.system_id)::timestamptz <= h.now, true)
                              ) w
                          ) v
                         WHERE v.place <= 150)
                       UNION ALL
                       (SELECT o.node_id, o.system_id, o.read_at, 3, o.stale_since
                          FROM farrier.node_observations o
                         WHERE o.site = r.site AND o.stale_since IS NOT NULL AND o.read_at <= h.now - r.motion_every / 10
                           AND coalesce((r.unreadable ->> o.system_id)::timestamptz <= h.now, true)
                         ORDER BY o.stale_since LIMIT 150)
                       UNION ALL
                       (SELECT o.node_id, o.system_id, o.read_at, 5, o.stale_since
                          FROM farrier.node_observations o
                         WHERE o.site = r.site AND o.stale_since IS NOT NULL AND o.read_at IS NULL
                           AND coalesce((r.unreadable ->> o.system_id)::timestamptz <= h.now, true)
                         ORDER BY o.stale_since LIMIT 150)
                       UNION ALL
                       (SELECT x.*
                          FROM farrier.contradictions c
                         CROSS JOIN LATERAL (
                               SELECT o.node_id, o.system_id, o.read_at, 4, o.read_at + h.confirmed_after
                                 FROM farrier.node_observations o JOIN farrier.nodes n ON n.id = o.node_id
                                WHERE o.site = r.site AND o.state = c.state AND o.read_at <= h.now - h.confirmed_after
                                  AND (n.status = ANY (c.statuses) OR c.lasts AND n.status = 'quarantined' AND EXISTS (
                                       SELECT FROM farrier.node_conditions d WHERE d.node = n.id AND d.source = 'region'))
                                  AND coalesce((r.unreadable ->> o.system_id)::timestamptz <= h.now, true)
                                ORDER BY o.read_at LIMIT 150) x
                         ORDER BY x.read_at LIMIT 150)
                       UNION ALL
                       (SELECT o.node_id, o.system_id, o.read_at, 6, sweep.earned_at
                          FROM farrier.node_observations o
                         WHERE o.site = r.site AND o.read_at IS NOT NULL
                           AND coalesce((r.unreadable ->> o.system_id)::timestamptz <= h.now, true)
                         ORDER BY o.read_at LIMIT sweep.size)
                     ) u
                    GROUP BY u.node_id, u.system_id
                 ) g
             ) y
            ORDER BY y.place > y.room, y.rank, y.read_at NULLS FIRST, y.node_id
            LIMIT 150
         ) x
         JOIN farrier.node_observations o ON o.node_id = x.node_id
         JOIN farrier.nodes n ON n.id = x.node_id
     ) d
 WHERE r.id = ANY ($1::bigint[])
