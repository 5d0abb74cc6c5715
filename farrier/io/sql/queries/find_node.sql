-- A node by its id, or by the name it has now, or by the name that only deleted nodes had.
SELECT coalesce((SELECT n.id FROM farrier.nodes n WHERE n.id = $1::bigint),
                (SELECT n.id FROM farrier.nodes n WHERE n.name = $2::text AND n.status <> 'deleted'),
                (SELECT max(n.id) FROM farrier.nodes n WHERE n.name = $2::text))
