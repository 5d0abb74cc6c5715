-- Returns a page of resources of a kind, by name and id.
SELECT r::text FROM farrier.show_resources($1, NULL, $2, $3, $4, $5, $6, $7, $8, $9) r
