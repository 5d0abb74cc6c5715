-- Loads snapshots of one kind, whose name replaces the placeholder.
SELECT id, now, snapshot::text AS snapshot FROM farrier.load_resources('of_kind', $1::bigint[])
