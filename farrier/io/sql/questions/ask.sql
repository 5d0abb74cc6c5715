-- Asks how a handler would answer intents; $1 is the kind, $2 the intents as JSON.
SELECT farrier.foresee($1, $2::jsonb)
