-- The ports of a partition, by whose they are.
SELECT json_build_object('guid', m.guid, 'owner', m.owner, 'node', m.node, 'membership', m.membership, 'state', m.state,
                         'since', m.since, 'reason', m.reason)::text
  FROM farrier.partition_members($1) m
 ORDER BY m.owner, m.guid
