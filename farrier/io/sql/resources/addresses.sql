-- Who has which addresses of a segment, by address.
SELECT json_build_object('address', host(a.address), 'prefix', a.prefix, 'owner', a.owner, 'node', n.name, 'allocated_at', a.allocated_at)::text
  FROM farrier.list_addresses($1) a LEFT JOIN farrier.node_inventory n ON n.id = a.node
 ORDER BY a.address
