-- The id of the node that has this name now.
SELECT v.id FROM farrier.node_inventory v WHERE v.name = $1
