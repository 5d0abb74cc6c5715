-- Returns the resources of one kind (null: of all kinds) at one site (null: at all sites) that are held after a restore.
SELECT row_to_json(h)::text FROM farrier.list_holds($1, $2) h
