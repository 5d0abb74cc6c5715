-- Returns one page of the inventory in an order other than by name: ids with their keys. $1 to $10 are as in
-- inventory.sql; $11 the order; $12 to $14: the key after which the page begins, as (number, text, name), where the number
-- -infinity begins the first page; $15 how many.
SELECT x.id, x.number, x.text, x.name
  FROM (SELECT n.id, n.name,
               coalesce(CASE $11::text WHEN 'oldest' THEN date_part('epoch', n.status_entered_at)
                                       WHEN 'newest' THEN -date_part('epoch', n.status_entered_at) END, 0) AS number,
               coalesce(CASE $11 WHEN 'status' THEN n.status WHEN 'management' THEN n.management
                                 WHEN 'site' THEN n.site WHEN 'model' THEN n.model WHEN 'rack' THEN n.rack END, '') COLLATE "C" AS text
          FROM farrier.selected_nodes($1::text[], $2::text[], $3::jsonb, $4::boolean, $5::text[], $6::text[], $7::text[]::boolean[]) n
         WHERE cardinality($8::text[]) = 1 AND ($8::text[])[1] = '' AND ($10::text[])[1] = ''
            OR EXISTS (SELECT FROM unnest($8, $9::text[], $10::text[]) AS r (first, beyond, pattern)
                        WHERE n.name >= r.first AND n.name < r.beyond AND n.name ~ r.pattern)) x
 WHERE $12::double precision = '-infinity' -- a constant of this plan, which spares the first page 100,000 comparisons
    OR (x.number, x.text, x.name) > ($12::double precision, $13::text, $14::text)
 ORDER BY x.number, x.text, x.name
 LIMIT $15
