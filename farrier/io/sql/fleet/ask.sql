-- Asks for something as another service would: one INSERT.
INSERT INTO farrier.intents (node, action, params, requested_by) VALUES ($1, $2, $3::jsonb, $4) RETURNING id
