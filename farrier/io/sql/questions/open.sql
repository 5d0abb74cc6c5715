-- Returns the open questions about resources of these shards of a kind; $1 is the kind, $2 the shards, $3 how many.
SELECT q.id, q.resource_id, q.action, q.params::text AS params FROM farrier.questions q
 WHERE q.kind = $1 AND q.verdict IS NULL AND farrier.shard_of(q.resource_id) = ANY ($2::integer[]) ORDER BY q.id LIMIT $3
