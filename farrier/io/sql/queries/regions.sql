-- The MAAS regions that were observed, by site.
SELECT row_to_json(x)::text
  FROM (
    SELECT r.site, r.state, r.state_entered_at AS since, r.username, r.complete_at, r.last_error
      FROM farrier.maas_regions r
     ORDER BY r.site
  ) x
