-- Returns the names of nodes that are given by ID.
SELECT n.name FROM farrier.nodes n WHERE n.id = ANY ($1::bigint[]) AND n.status <> 'deleted'
