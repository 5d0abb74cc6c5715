-- Snapshots of regions, with the machines that are due to be read, most urgent first. Each reason finds its own by an index.
-- Machines get their turn in as many equal parts as there are requests' worths of them, spread over `sweep_every`; those
-- that an outage held up are not made up for at once.
SELECT r.id, farrier.now() AS now,
       (to_jsonb(r) || jsonb_build_object('due', d.due, 'more', d.many >= 150, 'turn_at', sweep.turn_at))::text AS snapshot
  FROM farrier.maas_regions r
 CROSS JOIN LATERAL (SELECT count(*) AS machines FROM farrier.node_observations o WHERE o.site = r.site) c
 CROSS JOIN LATERAL (SELECT greatest(1, ceil(c.machines / 50.0)) AS turns, coalesce(r.swept_at, r.created_at) AS from_at) t
 CROSS JOIN LATERAL (SELECT floor(extract(epoch FROM farrier.now() - t.from_at) * t.turns / extract(epoch FROM r.sweep_every)) AS earned) e
 CROSS JOIN LATERAL (SELECT (least(2, e.earned) * ceil(c.machines / t.turns))::integer AS size,
                            CASE WHEN e.earned BETWEEN 1 AND 2 THEN t.from_at + r.sweep_every * (e.earned / t.turns)::double precision
                                 WHEN e.earned > 2 THEN farrier.now() END AS turn_at) sweep
 CROSS JOIN LATERAL (
       SELECT count(*) AS many,
              coalesce(jsonb_agg(jsonb_build_object('node', x.node_id, 'system_id', x.system_id, 'urgent', x.urgency = 1) ORDER BY x.urgency, x.node_id), '[]') AS due
         FROM (
           SELECT u.node_id, u.system_id, min(u.urgency) AS urgency
             FROM (
               (SELECT o.node_id, o.system_id, CASE WHEN o.stale_since IS NULL THEN 2 ELSE 1 END AS urgency
                  FROM farrier.maas_motion m
                  JOIN farrier.node_observations o ON o.node_id = m.node_id AND o.source = 'maas' AND o.system_id = m.system_id
                 WHERE m.site = r.site
                   AND (o.stale_since IS NOT NULL OR o.read_at <= m.began_at OR o.read_at <= farrier.now() - r.motion_every)
                   AND coalesce((r.unreadable ->> o.system_id)::timestamptz <= farrier.now(), true)
                 ORDER BY o.stale_since IS NULL, o.read_at
                 LIMIT 150)
               UNION ALL
               (SELECT o.node_id, o.system_id, CASE WHEN o.read_at IS NULL THEN 5 ELSE 3 END
                  FROM farrier.node_observations o
                 WHERE o.site = r.site AND o.stale_since IS NOT NULL
                   AND coalesce((r.unreadable ->> o.system_id)::timestamptz <= farrier.now(), true)
                 ORDER BY o.stale_since DESC LIMIT 150)
               UNION ALL
               (SELECT o.node_id, o.system_id, 4
                  FROM farrier.node_observations o JOIN farrier.nodes n ON n.id = o.node_id
                 WHERE o.site = r.site AND o.state <> 'deployed' AND o.read_at <= farrier.now() - interval '60 seconds'
                   AND (n.status IN ('active', 'offline')
                        OR n.status = 'quarantined' AND n.quarantine ->> 'cause' IN ('state_disagreement', 'machine_deleted_upstream'))
                   AND coalesce((r.unreadable ->> o.system_id)::timestamptz <= farrier.now(), true)
                 ORDER BY o.read_at LIMIT 150)
               UNION ALL
               (SELECT o.node_id, o.system_id, 6
                  FROM farrier.node_observations o
                 WHERE o.site = r.site AND o.read_at IS NOT NULL
                   AND coalesce((r.unreadable ->> o.system_id)::timestamptz <= farrier.now(), true)
                 ORDER BY o.read_at LIMIT sweep.size)
             ) u
            GROUP BY u.node_id, u.system_id
            ORDER BY 3, 1
            LIMIT 150
         ) x
     ) d
 WHERE r.id = ANY ($1::bigint[])
