-- Returns all monitors by name, or (not null) the one with this name.
SELECT row_to_json(x)::text
  FROM (
    SELECT m.name, m.login, m.sites, m.ids, m.effect, extract(epoch FROM m.lasts)::float8 AS lasts_seconds, m.labels, m.brake_share, m.brake_at_least,
           m.granted_at, m.granted_by, m.refused, c.conditions, c.unknown,
           (SELECT count(*) FROM farrier.monitor_refusals r WHERE r.monitor = m.name AND r.last_at > farrier.now() - m.lasts) AS refused_now
      FROM farrier.monitors m
     CROSS JOIN LATERAL (
           SELECT count(*) AS conditions, count(*) FILTER (WHERE n.expires_at <= farrier.now()) AS unknown
             FROM farrier.node_conditions n WHERE n.source = 'monitor:' || m.name) c
     WHERE $1::text IS NULL OR m.name = $1
     ORDER BY m.name
  ) x
