-- Loads snapshots of one kind, whose name replaces `of_kind`.
SELECT id, now, snapshot::text AS snapshot FROM farrier.load_resources('of_kind', $1::bigint[])
