-- Enqueues resources of one kind at this transaction's COMMIT.
SELECT farrier.enqueue($1, id) FROM unnest($2::bigint[]) AS id
