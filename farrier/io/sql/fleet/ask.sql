-- Submits an intent with an INSERT, as another service would.
INSERT INTO farrier.intents (node, action, params, requested_by, api_version) VALUES ($1, $2, $3::jsonb, $4, $5) RETURNING id
