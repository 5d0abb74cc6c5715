-- Asks for something as another service would: one INSERT.
INSERT INTO farrier.intents (node, action, params, requested_by, api_version) VALUES ($1, $2, $3::jsonb, $4, $5) RETURNING id
