-- Returns the brakes that hold nodes or that an operator has lifted, by site and cause. $1: how many held nodes are named.
SELECT row_to_json(x)::text
  FROM (
    SELECT coalesce(h.site, l.site) AS site, h.source, h.since, coalesce(h.held, 0) AS held, h.leaving, h.in_service,
           coalesce(h.nodes, '[]') AS nodes, l.until AS lifted_until, l.requested_by AS lifted_by, l.reason AS lift_reason
      FROM (SELECT b.site, b.source, b.since, b.held, b.leaving, b.in_service,
                   (SELECT json_agg(named.name) FROM (
                        SELECT n.name FROM farrier.departing d JOIN farrier.nodes n ON n.id = d.node AND coalesce(n.site, '') = d.site AND n.status = 'active'
                         WHERE (d.site, d.source) = (b.site, b.source) AND d.held ORDER BY n.name LIMIT $1) named) AS nodes
              FROM farrier.brakes_holding b) h
      FULL JOIN farrier.brakes_lifted l USING (site)
     ORDER BY 1, 2
  ) x
