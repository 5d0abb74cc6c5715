-- The id of the newest node, deleted ones included; 0 if there never was one.
SELECT coalesce(max(id), 0) FROM farrier.nodes
