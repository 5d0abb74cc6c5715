-- A deleted node's network addresses may be registered again.
DELETE FROM farrier.node_macs WHERE node_id = ANY ($1::bigint[])
