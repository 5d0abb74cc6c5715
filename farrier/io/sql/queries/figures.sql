-- The fleet in numbers: states of every layer, how far behind the controllers are, what is unanswered.
SELECT row_to_json(x)::text
  FROM (
    SELECT farrier.now() AS now,
           json_build_object(
               'status', (SELECT coalesce(json_object_agg(status, n), '{}') FROM (
                    SELECT status, count(*) AS n FROM farrier.nodes GROUP BY status) c),
               'management', (SELECT coalesce(json_object_agg(management, n), '{}') FROM (
                    SELECT management, count(*) AS n FROM farrier.nodes WHERE status <> 'deleted' GROUP BY management) c),
               'onboarding', (SELECT coalesce(json_object_agg(status, n), '{}') FROM (
                    SELECT status, count(*) AS n FROM farrier.node_onboardings
                     WHERE ended_at IS NULL GROUP BY status) c),
               'decommission', (SELECT coalesce(json_object_agg(status, n), '{}') FROM (
                    SELECT status, count(*) AS n FROM farrier.node_decommissions
                     WHERE ended_at IS NULL GROUP BY status) c)) AS layers,
           d.unowned, d.lag_seconds,
           (SELECT count(*) FROM farrier.intents WHERE status = 'pending')
               + (SELECT count(*) FROM farrier.resource_intents WHERE status = 'pending') AS intents_pending
      FROM (SELECT count(*) FILTER (WHERE s.controller_id IS NULL) AS unowned,
                   greatest(coalesce(extract(epoch FROM farrier.now() - min(s.swept_at)), 0), 0)::double precision AS lag_seconds
              FROM farrier.shard_owners s WHERE s.kind = 'node') d
  ) x
