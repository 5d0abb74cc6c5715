-- The MAAS regions that were observed, by site.
SELECT row_to_json(x)::text
  FROM (
    SELECT r.name AS site, r.state, r.state_entered_at AS since, r.username, r.complete_at, r.last_error
      FROM farrier.maas_regions r
     WHERE r.ended_at IS NULL
     ORDER BY r.name
  ) x
