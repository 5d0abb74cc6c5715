-- Inserts an intent and returns its id; a repeated call with the same key returns the id of the first intent.
SELECT farrier.intent($1, $2, $3::jsonb, $4, $5, $6)
