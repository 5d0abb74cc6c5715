-- Returns the allocated addresses of a segment with their owners, by address; no rows for a segment that has ended.
SELECT json_build_object('address', host(a.address), 'prefix', a.prefix, 'owner', a.owner, 'node', n.name, 'allocated_at', a.allocated_at)::text
  FROM farrier.show_resources('network_segment', $1, '{}', '{}', false, '', 0, 1) r
 CROSS JOIN LATERAL farrier.list_addresses(r ->> 'id') a
  LEFT JOIN farrier.node_inventory n ON n.id = a.node
 ORDER BY a.address
