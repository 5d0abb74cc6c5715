-- Returns the resources of all kinds that exceed their limits, the most overdue first.
SELECT json_build_object('kind', l.kind, 'layer', l.layer, 'id', l.id, 'name', l.name, 'site', l.site, 'state', l.state, 'since', l.since,
                         'limit', extract(epoch FROM l.lasts), 'last_error', l.last_error)::text
  FROM farrier.late_resources($1::text[], $2::text[], $3::text[], $4::text[], $5::text[]::interval[], $6) l
 ORDER BY l.since + l.lasts, l.kind, l.id, l.layer
 LIMIT $6
