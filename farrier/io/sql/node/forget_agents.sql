-- The agents' keys open nothing any more.
DELETE FROM farrier.node_agents WHERE node_id = ANY ($1::bigint[])
