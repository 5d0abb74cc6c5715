-- Returns the ids of one page of the inventory, by name. $1 to $7 select nodes, see selected_nodes; $8 to $10: ranges of
-- names as (first, beyond, pattern), each of which reads its part of the index; $11: the name after which the page begins;
-- $12: how many. Only one part of the union is in a plan, because the parameters are its constants.
SELECT x.id
  FROM ((SELECT n.id, n.name
           FROM farrier.selected_nodes($1::text[], $2::text[], $3::jsonb, $4::boolean, $5::text[], $6::text[], $7::text[]::boolean[]) n
          WHERE cardinality($8::text[]) = 1 AND ($8::text[])[1] = '' AND ($10::text[])[1] = '' AND n.name > $11::text
          ORDER BY n.name
          LIMIT $12)
        UNION ALL
        SELECT y.id, y.name
          FROM unnest($8::text[], $9::text[], $10::text[]) AS r (first, beyond, pattern)
         CROSS JOIN LATERAL (
               SELECT n.id, n.name
                 FROM farrier.selected_nodes($1::text[], $2::text[], $3::jsonb, $4::boolean, $5::text[], $6::text[], $7::text[]::boolean[]) n
                  -- The planner expects few names of a range and of the operator ~, and would read and sort the whole fleet. It
                  -- makes no such estimate for a comparison of rows and for a function.
                WHERE n.name > $11::text AND (n.name, 0) >= (r.first, 0) AND (n.name, 0) < (r.beyond, 0) AND regexp_like(n.name, r.pattern)
                ORDER BY n.name
                LIMIT $12) y
         WHERE NOT (cardinality($8::text[]) = 1 AND ($8::text[])[1] = '' AND ($10::text[])[1] = '')) x
 GROUP BY x.id, x.name
 ORDER BY x.name
 LIMIT $12
