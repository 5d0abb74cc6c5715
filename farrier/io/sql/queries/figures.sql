-- Returns the fleet in numbers: nodes by status, the lag of the controllers, pending intents, nodes that brakes hold.
SELECT row_to_json(x)::text
  FROM (
    SELECT farrier.now() AS now,
           (SELECT coalesce(json_object_agg(status, n), '{}') FROM (
                SELECT status, count(*) AS n FROM farrier.nodes GROUP BY status) c) AS statuses,
           d.unowned, d.lag_seconds,
           (SELECT count(*) FROM farrier.all_intents WHERE status = 'pending') AS intents_pending,
           (SELECT count(*) FROM farrier.braked_nodes) AS held,
           (SELECT count(DISTINCT b.site) FROM farrier.brakes_holding b) AS brakes_holding
      FROM (SELECT count(*) FILTER (WHERE s.controller_id IS NULL) AS unowned,
                   greatest(coalesce(extract(epoch FROM farrier.now() - min(s.swept_at)), 0), 0)::double precision AS lag_seconds
              FROM farrier.shard_owners s WHERE s.kind = 'node') d
  ) x
