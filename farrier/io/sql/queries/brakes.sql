-- Returns the brakes that hold nodes or that an operator has lifted, by site. $1: how many held nodes are named.
SELECT row_to_json(x)::text
  FROM (
    SELECT coalesce(h.site, l.site) AS site, h.since, coalesce(h.held, 0) AS held, h.leaving, h.in_service,
           coalesce(h.nodes, '[]') AS nodes, l.until AS lifted_until, l.requested_by AS lifted_by, l.reason AS lift_reason
      FROM (SELECT b.site, b.since, b.held, b.leaving, b.in_service,
                   (SELECT json_agg(named.name) FROM (
                        SELECT n.name FROM farrier.braked_nodes d JOIN farrier.nodes n USING (id)
                         WHERE coalesce(n.site, '') = b.site ORDER BY n.name LIMIT $1) named) AS nodes
              FROM farrier.brakes_holding b) h
      FULL JOIN farrier.brakes_lifted l USING (site)
     ORDER BY 1
  ) x
