-- The ids of all nodes for which some clock may run: few, because most nodes rest.
SELECT n.id
  FROM farrier.nodes n
 WHERE n.status <> 'deleted'
   AND (n.status = ANY ($4::text[]) OR n.management = ANY ($5::text[]) OR n.live_workflow_id IS NOT NULL)
   AND (cardinality($1::text[]) = 0 OR n.status = ANY ($1))
   AND (cardinality($2::text[]) = 0 OR n.management = ANY ($2))
   AND (cardinality($3::text[]) = 0 OR n.site = ANY ($3))
