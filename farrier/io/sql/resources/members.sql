-- Returns the members of a partition, by owner and port; no rows for a partition that has ended.
SELECT json_build_object('guid', m.guid, 'owner', m.owner, 'node', m.node, 'membership', m.membership, 'state', m.state,
                         'since', m.since, 'reason', m.reason)::text
  FROM farrier.show_resources('ib_partition', $1, '{}', '{}', false, '', 0, 1) r
 CROSS JOIN LATERAL farrier.partition_members(r ->> 'id') m
 ORDER BY m.owner, m.guid
