-- Inserts an intent for a resource, or finds the one with the same key and content.
SELECT farrier.resource_intent($1, $2, $3, $4::jsonb, $5, $6)
