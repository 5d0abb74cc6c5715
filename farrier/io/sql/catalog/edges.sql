-- The node kind's edges become exactly these.
WITH want AS (SELECT * FROM unnest($1::text[], $2::text[], $3::text[]) AS w (layer, from_value, to_value)),
     gone AS (DELETE FROM farrier.edges e WHERE e.kind = 'node'
               AND NOT EXISTS (SELECT FROM want w WHERE (w.layer, w.from_value, w.to_value) = (e.layer, e.from_value, e.to_value)))
INSERT INTO farrier.edges (kind, layer, from_value, to_value) SELECT 'node', layer, from_value, to_value FROM want
    ON CONFLICT DO NOTHING
