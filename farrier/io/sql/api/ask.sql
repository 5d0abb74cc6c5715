-- Inserts an intent, or finds the one with the same key and content.
SELECT farrier.intent($1, $2, $3::jsonb, $4, $5, $6)
