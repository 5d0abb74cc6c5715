-- Returns how many nodes a filter selects, and how many it would select with each other value of status, management
-- state, site, model and rack; only the hundred most frequent values of each. $1 to $10 are as in inventory.sql. The nodes
-- are grouped first, because groups are few.
WITH grouped AS MATERIALIZED (
    SELECT n.status, n.management, n.site, n.model, n.rack, count(*) AS n
      FROM farrier.selected_nodes(
               '{}', '{}', $3::jsonb - '{site,model,rack}'::text[], $4::boolean, $5::text[], $6::text[], $7::text[]::boolean[]) n
     WHERE cardinality($8::text[]) = 1 AND ($8::text[])[1] = '' AND ($10::text[])[1] = ''
        OR EXISTS (SELECT FROM unnest($8, $9::text[], $10::text[]) AS r (first, beyond, pattern)
                    WHERE n.name >= r.first AND n.name < r.beyond AND n.name ~ r.pattern)
     GROUP BY n.status, n.management, n.site, n.model, n.rack),
tested AS (
    SELECT g.number, g.n, v.name, v.value, v.fits, count(*) FILTER (WHERE NOT v.fits) OVER (PARTITION BY g.number) AS misfits
      FROM (SELECT *, row_number() OVER () AS number FROM grouped) g
     CROSS JOIN LATERAL (VALUES
           ('status', g.status, cardinality($1::text[]) = 0 OR g.status = ANY ($1)),
           ('management', g.management, cardinality($2::text[]) = 0 OR g.management = ANY ($2)),
           ('site', g.site, $3 -> 'site' IS NULL OR coalesce($3 -> 'site' ? g.site, false)),
           ('model', g.model, $3 -> 'model' IS NULL OR coalesce($3 -> 'model' ? g.model, false)),
           ('rack', g.rack, $3 -> 'rack' IS NULL OR coalesce($3 -> 'rack' ? g.rack, false))) v (name, value, fits)),
counted AS (
    SELECT t.name, t.value, sum(t.n) AS n, row_number() OVER (PARTITION BY t.name ORDER BY sum(t.n) DESC, t.value) AS place
      FROM tested t
     WHERE t.value IS NOT NULL AND (t.misfits = 0 OR t.misfits = 1 AND NOT t.fits)
     GROUP BY t.name, t.value)
SELECT json_build_object(
    'selected', (SELECT coalesce(sum(t.n), 0) FROM tested t WHERE t.misfits = 0 AND t.name = 'status'),
    'values', (SELECT coalesce(json_object_agg(c.name, c.values), '{}') FROM (
                   SELECT c.name, json_object_agg(c.value, c.n ORDER BY c.place) AS values
                     FROM counted c WHERE c.place <= 100 GROUP BY c.name) c))::text
