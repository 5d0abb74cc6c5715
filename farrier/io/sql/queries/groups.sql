-- Returns the selected nodes in groups: how many nodes each group has, in each status, and how many a brake holds. $1 to $10
-- select nodes, as in inventory.sql; $11: status, site, model or rack; $12: how many groups. Two sites may each have a rack
-- of the same name, so the groups by rack are groups by site and rack.
SELECT row_to_json(x)::text
  FROM (
    SELECT g.site, g.value, sum(g.n) AS nodes, sum(g.held) AS held, json_object_agg(g.status, g.n) AS statuses
      FROM (SELECT CASE WHEN $11::text = 'rack' THEN n.site END AS site,
                   CASE $11::text WHEN 'status' THEN n.status WHEN 'site' THEN n.site WHEN 'model' THEN n.model WHEN 'rack' THEN n.rack END AS value,
                   n.status, count(*) AS n, count(b.id) AS held
              FROM farrier.selected_nodes($1::text[], $2::text[], $3::jsonb, $4::boolean, $5::text[], $6::text[], $7::text[]::boolean[]) n
              LEFT JOIN farrier.braked_nodes b ON b.id = n.id
             WHERE cardinality($8::text[]) = 1 AND ($8::text[])[1] = '' AND ($10::text[])[1] = ''
                OR EXISTS (SELECT FROM unnest($8, $9::text[], $10::text[]) AS r (first, beyond, pattern)
                            WHERE n.name >= r.first AND n.name < r.beyond AND n.name ~ r.pattern)
             GROUP BY 1, 2, 3) g
     GROUP BY g.site, g.value
     ORDER BY g.site NULLS LAST, g.value NULLS LAST
     LIMIT $12
  ) x
