-- Loads snapshots of partitions with their members.
SELECT r.id, r.now,
       (r.snapshot || jsonb_build_object('members', (
           SELECT coalesce(jsonb_agg(jsonb_build_object('guid', m.guid, 'owner', m.owner, 'membership', m.membership, 'state', m.state,
                      'reason', m.reason, 'seq', m.seq) ORDER BY m.owner, m.guid), '[]')
             FROM farrier.ib_members m WHERE m.partition = r.id)))::text AS snapshot
  FROM farrier.load_resources('ib_partition', $1::bigint[]) r
