-- Inserts an intent for a resource of any kind and returns its id; a repeated call with the same key returns the id of the first
-- intent.
SELECT farrier.resource_intent($1, $2, $3, $4::jsonb, $5, $6, $7)
