-- Returns the names of nodes that are given by ID.
SELECT n.name FROM farrier.nodes n WHERE n.id = ANY ($1::text[]::bigint[]) AND n.status <> 'deleted'
