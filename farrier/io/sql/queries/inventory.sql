-- The ids of one page of the inventory, by name.
SELECT n.id
  FROM farrier.nodes n
 WHERE n.status <> 'deleted'
   AND n.name > $4::text
   AND (cardinality($1::text[]) = 0 OR n.status = ANY ($1))
   AND (cardinality($2::text[]) = 0 OR n.management = ANY ($2))
   AND (cardinality($3::text[]) = 0 OR n.site = ANY ($3))
 ORDER BY n.name
 LIMIT $5
