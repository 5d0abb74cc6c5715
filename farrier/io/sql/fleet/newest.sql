-- Returns the id of the newest node, deleted ones included; 0 if no node was ever registered.
SELECT coalesce(max(id), 0) FROM farrier.nodes
