-- Snapshots of one kind; its name takes the place of the word that stands for it.
SELECT id, now, snapshot::text AS snapshot FROM farrier.load_resources('of_kind', $1::bigint[])
